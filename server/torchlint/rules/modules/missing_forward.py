from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.idioms.modules.class_decorators import may_be_remade
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_module_class
from torchlint.semantics.classes import ClassView
from torchlint.semantics.nodes import enclosing_function, nodes_within
from torchlint.semantics.scopes import FunctionNode
from torchlint.semantics.unit import Unit


class MissingForward(Rule):
    """## What it does

    Reports a subclass of `nn.Module` without a `forward` that has a method of nearly that name: `foward`, `forwad`,
    `Forward`, or whose `forward` is indented too far and stands inside of its `__init__`. A class that has `__call__`
    instead is a hint.

    ## Why is this bad?

    Calling the module raises `NotImplementedError`, in the first batch. With `__call__` the call works, but no hook
    runs, and what asks for `forward` (`torch.jit`, `torch.export`, summaries of a model) does not find it.

    ## Example

    ```python
    import torch.nn as nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(10, 2)

        def foward(self, x):
            return self.fc(x)
    ```

    ## Use instead

    ```python
    import torch.nn as nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(10, 2)

        def forward(self, x):
            return self.fc(x)
    ```

    ## Exceptions

    Abstract classes, containers, mixins, classes that others in the file derive from, and classes whose bases are not
    all known. Methods that the file calls by their name.

    ## References

    - [torch.nn.Module.forward](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.forward)
    """

    code = "TL129"
    name = "missing-forward"
    level = Level.ERROR
    fix = FixKind.UNSAFE
    summary = "A module whose `forward` is spelled in another way raises when it is called."

    @on_module_class()
    def check(self, view: ClassView, unit: Unit) -> Iterator[Diagnosis]:
        if not _needs_forward(view):
            return
        inner = _nested(view)
        if inner is not None:
            method, holder = inner
            yield self.found(
                method,
                f"`forward` stands inside of `{holder.name}`, so `{view.name}` has none: calling the module raises.",
                fixes=_dedented(method, holder),
            )
            return
        near = [method for method in view.methods if _is_near(method.name) and len(_parameters(method)) > 1]
        if len(near) != 1 or near[0].decorator_list:
            return
        (method,) = near
        if view.semantics.module.reads_attribute(method.name):
            return
        fix = FixPlan("Rename it to `forward`", "unsafe", lambda edit: edit.rename_definition(method, "forward"))
        if method.name == "__call__":
            if not _is_built(view):
                return
            yield self.found(
                method,
                f"`{view.name}` overrides `__call__` and has no `forward`: its hooks do not run, and nothing that asks"
                " for `forward` finds it.",
                severity=Level.HINT.severity,
                fixes=[fix],
            )
            return
        yield self.found(
            method,
            f"`{view.name}` has no `forward`, only `{method.name}`: calling the module raises.",
            fixes=[fix],
        )


def _needs_forward(view: ClassView) -> bool:
    """Whether a class can only be run by a ``forward`` of its own: its bases bring none, and nothing else can."""
    semantics, node = view.semantics, view.node
    if semantics.ancestors(node) - {f".{base.name}" for base in semantics.local_bases(node)} != {"torch.nn.Module"}:
        return False
    if (
        "mixin" in node.name.lower()
        or semantics.has_unknown_base(node)
        or semantics.module.is_base(view.name)
        or may_be_remade(node)
        or node.keywords
    ):
        return False
    if semantics.find_method(node, "forward") or semantics.module.body_definitions(node, "forward"):
        return False
    if view.writes("forward") or semantics.find_method(node, "__getattr__"):
        return False
    return not any(_is_abstract(method) for method in view.methods)


def _nested(view: ClassView) -> tuple[FunctionNode, FunctionNode] | None:
    """A ``forward(self, ...)`` that is defined in a method and that the method does not use, with that method."""
    for holder in view.methods:
        for inner in nodes_within(holder, ast.FunctionDef):
            if isinstance(inner, ast.FunctionDef) and inner.name == "forward" and inner is not holder:
                used = any(getattr(node, "id", None) == "forward" for node in nodes_within(holder, ast.Name))
                own = [item.arg for item in _parameters(inner)][:1] == ["self"]
                if own and not used and not inner.decorator_list and enclosing_function(inner) is holder:
                    return inner, holder
    return None


def _dedented(method: FunctionNode, holder: FunctionNode) -> list[FixPlan]:
    """Take ``forward``, and the methods that follow it, out of the method that holds them."""
    rest = holder.body[holder.body.index(method) :] if method in holder.body else []
    if not rest or not all(isinstance(one, ast.FunctionDef) and one.args.args for one in rest):
        return []
    return [FixPlan("Take it out", "unsafe", lambda edit: edit.dedent_from(method, rest[-1], holder))]


def _is_abstract(method: FunctionNode) -> bool:
    return any("abstract" in ast.unparse(decorator) for decorator in method.decorator_list)


def _is_near(name: str) -> bool:
    """Whether a name is ``forward`` with a slip of the hand: one letter too much, too few, another, two swapped, or
    capitals. ``_forward`` and ``forward_`` are names of their own."""
    if name in ("__call__", "__forward__"):
        return True
    word = name.lower()
    return name != "forward" and word.isalpha() and abs(len(word) - 7) <= 1 and _distance(word, "forward") <= 1


def _distance(first: str, second: str) -> int:
    """How many letters are inserted, left out, changed or swapped with their neighbour between two words."""
    rows = [list(range(len(second) + 1))]
    for i, one in enumerate(first, 1):
        row = [i]
        for j, other in enumerate(second, 1):
            best = min(rows[i - 1][j] + 1, row[j - 1] + 1, rows[i - 1][j - 1] + (one != other))
            if i > 1 and j > 1 and one == second[j - 2] and first[i - 2] == other:
                best = min(best, rows[i - 2][j - 2] + 1)
            row.append(best)
        rows.append(row)
    return rows[-1][-1]


def _parameters(method: FunctionNode) -> list[ast.arg]:
    arguments = method.args
    starred = [item for item in (arguments.vararg, arguments.kwarg) if item is not None]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *starred]


def _is_built(view: ClassView) -> bool:
    """Whether the file makes an object of the class."""
    semantics = view.semantics
    return any(semantics.local_class(call.func) is view.node for call in semantics.module.calls_of(view.name))
