from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchlint.idioms.surroundings.stated import is_stated
from torchlint.regex import regex
from torchlint.rules.base import Diagnosis, Level, Rule, on_module_class
from torchlint.semantics.classes import ClassView, self_attributes
from torchlint.semantics.nodes import is_static, nodes_within
from torchlint.semantics.scopes import FunctionNode
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

#: What a call that sets the mode is spelled like.
_MODE_CALLS = frozenset({"train", "eval", "apply", "modules", "children", "named_modules", "named_children"})
#: What says that a mode is kept on purpose.
_KEPT = regex(
    r"\b(?:not? (?:\w+ )?chang\w*|fr[eo]+ze?\w*|disabl\w*|always|keep\w*|ignor\w*|fixed|no-?op)\b", re.IGNORECASE
)


class TrainMethodOverridden(Rule):
    """## What it does

    Reports modules whose `train` or `eval` means something else than in `nn.Module`: it needs other arguments (often a
    data loader), or it never sets the mode, or freezes a part and forgets the rest.

    ## Why is this bad?

    `nn.Module.eval()` is `self.train(False)`, and `train(mode)` of a module calls `train(mode)` of every module in it.
    With another `train` both fail, or silently run something else, and dropout and batch normalisation stay in the
    wrong mode.

    ## Example

    ```python
    import torch.nn as nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(2, 2)

        def train(self, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                nn.functional.mse_loss(self.fc(x), y).backward()
                optimizer.step()
    ```

    ## Use instead

    ```python
    import torch.nn as nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(2, 2)

        def fit(self, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                nn.functional.mse_loss(self.fc(x), y).backward()
                optimizer.step()
    ```

    ## Exceptions

    A `train(self, mode=True)` that calls `super().train(mode)`, sets `self.training`, or passes the mode on to the
    modules inside: freezing batch normalisation that way is common and right. One that only returns `self` and
    says why.

    ## References

    - [torch.nn.Module.train](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html)
    """

    code = "TL114"
    name = "train-method-overridden"
    level = Level.WARNING
    summary = "Another meaning of `train` or `eval` breaks switching the mode of a module."

    @on_module_class()
    def check(self, view: ClassView, unit: Unit) -> Iterator[Diagnosis]:
        for name in ("train", "eval"):
            method = view.method(name)
            if method is None or is_static(method) or isinstance(method, ast.AsyncFunctionDef):
                continue
            if not all(_is_without_grad(decorator, view) for decorator in method.decorator_list):
                continue
            problem = _problem(method, view)
            if problem is not None:
                yield self.found(method, f"`{view.name}.{name}` {problem}")


def _problem(method: FunctionNode, view: ClassView) -> str | None:
    allowed = 1 if method.name == "train" else 0
    needed, keywords = _required(method)
    more = [*needed[allowed:], *keywords]
    if more:
        if method.name == "train":
            return f"needs `{more[0]}`: `eval()`, and `train()` of a module that holds this one, call it without."
        return f"needs `{more[0]}`: `eval()` of a module takes no arguments."
    if allowed and needed and not _is_mode([*method.args.posonlyargs, *method.args.args][1]):
        return f"needs `{needed[0]}`: `train()` is called without arguments, and `eval()` gives it `False` for that."
    if allowed and not _accepts_mode(method) and view.semantics.find_method(view.node, "eval") is None:
        return "takes no mode: `eval()`, and `train()` of a module that holds this one, give it one and raise."
    if allowed and _freezes_a_part(method, view):
        return "passes its mode on to nothing: `eval()` leaves all but the part that is frozen in training mode."
    if _is_empty(method) or _sets_mode(method, view):
        return None
    return "never sets the mode: dropout and batch normalisation stay as they were."


def _required(method: FunctionNode) -> tuple[list[str], list[str]]:
    """The parameters without a default, ``self`` left out: those by position, and those by keyword only."""
    arguments = method.args
    positional = [*arguments.posonlyargs, *arguments.args]
    names = [item.arg for item in positional[: len(positional) - len(arguments.defaults)]][1:]
    pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return names, [item.arg for item, default in pairs if default is None]


def _accepts_mode(method: FunctionNode) -> bool:
    """Whether a method can be given one value by position."""
    arguments = method.args
    return arguments.vararg is not None or len(arguments.posonlyargs) + len(arguments.args) > 1


def _is_mode(parameter: ast.arg) -> bool:
    """Whether a parameter is the mode: so called, or annotated as a bool."""
    annotated = isinstance(parameter.annotation, ast.Name) and parameter.annotation.id == "bool"
    return annotated or any(word in parameter.arg.lower() for word in ("mode", "train", "is_", "flag"))


def _is_without_grad(decorator: ast.expr, view: ClassView) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return view.semantics.is_named(called, "torch.no_grad", "torch.inference_mode")


def _is_empty(method: FunctionNode) -> bool:
    """Whether a method has no body of its own, only raises, or says that it keeps the mode and returns `self`."""
    rest = [
        statement
        for statement in method.body
        if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
    ]
    keeps = len(rest) == 1 and isinstance(rest[0], ast.Return) and is_stated(rest[0], _KEPT)
    return not rest or keeps or isinstance(rest[0], ast.Raise)


def _freezes_a_part(method: FunctionNode, view: ClassView) -> bool:
    """Whether a ``train(mode)`` reads no mode and only calls ``eval()`` of some modules of the class, others not."""
    arguments = [*method.args.posonlyargs, *method.args.args]
    if len(arguments) != 2 or method.args.vararg or method.args.kwarg:
        return False
    frozen: set[str] = set()
    chosen = False
    for node in nodes_within(method, ast.Name, ast.Attribute, ast.Call):
        match node:
            case ast.Name(id=name) if name in (arguments[1].arg, "super"):
                return False
            case ast.Attribute(attr="training" | "__dict__"):
                return False
            case ast.Call(func=ast.Attribute(value=ast.Attribute(value=holder, attr=name), attr="eval"), args=[]):
                if view.semantics.class_of_self(holder) is None:
                    return False
                frozen.add(name)
            case ast.Call(func=ast.Attribute(value=ast.Name() as layer, attr="eval"), args=[]):
                if not _is_chosen(layer, node):
                    return False
                chosen = True
            case ast.Call(func=ast.Attribute(attr="modules" | "named_modules" | "children" | "named_children")):
                pass
            case ast.Call(func=ast.Name(id="isinstance")):
                pass
            case ast.Call():
                return False
    kinds = ((name, view.semantics.attribute_kind(view.node, name)) for name in view.attributes)
    others = [name for name, kind in kinds if name not in frozen and kind is not None and kind.is_module]
    return chosen or bool(frozen and others)


def _is_chosen(layer: ast.Name, call: ast.Call) -> bool:
    """Whether a call is made only where its layer is of a certain class."""
    statement = parent_of(call)
    branch = parent_of(statement) if isinstance(statement, ast.Expr) else None
    if not isinstance(branch, ast.If) or statement not in branch.body:
        return False
    match branch.test:
        case ast.Call(func=ast.Name(id="isinstance"), args=[ast.Name(id=name), _]):
            return name == layer.id
        case _:
            return False


def _sets_mode(method: FunctionNode, view: ClassView) -> bool:
    """Whether a method, or one of the class that it calls, sets a mode somewhere or leaves that to unknown code."""
    for called in view.called_from(method.name):
        for attribute in self_attributes(called):
            if attribute.attr in ("training", "__dict__"):
                return True
        for call in nodes_within(called, ast.Call):
            assert isinstance(call, ast.Call)
            if isinstance(call.func, ast.Attribute) and call.func.attr in _MODE_CALLS:
                return True
            if (
                isinstance(call.func, ast.Name)
                and call.func.id == "super"
                and isinstance(parent_of(call), ast.Attribute)
            ):
                return True
            # The module itself is given to a function, which may do it.
            if any(view.semantics.class_of_self(given) is not None for given in call.args):
                return True
    return False
