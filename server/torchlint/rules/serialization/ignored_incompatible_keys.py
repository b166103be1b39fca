from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchlint.finding import Severity
from torchlint.idioms.surroundings.expected_errors import is_asserted_to_raise
from torchlint.idioms.surroundings.stated import comments_at
from torchlint.regex import regex
from torchlint.rules.base import Diagnosis, Level, Rule, on_method
from torchlint.semantics.nodes import argument, enclosing_function, nodes_within
from torchlint.semantics.scopes import Binding
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

#: Functions that choose the keys that fit.
_CHOOSES = regex(
    r"intersect|filter|match|select|subset|common|clean|remap|rename|convert|strip|remove|adapt|interpolat|process",
    re.IGNORECASE,
)
#: What only a method of torch's own form is given.
_PARAMETERS = frozenset(("state_dict", "strict", "assign"))
#: Methods by which a function changes the keys of a state dict on purpose.
_CHANGES = frozenset(("pop", "update", "setdefault", "clear", "popitem"))


#: State dicts that hold some of the keys on purpose, in names of variables, files, keys and functions.
_PARTIAL = regex(
    r"lora|adapter|peft|partial|delta|trainable|prefix|prompt|projector|fine_?tun|transfer|(?:^|[._])ft(?:$|[._])",
    re.IGNORECASE,
)
_PARTIAL_STATED = regex(
    _PARTIAL.pattern + r"|\b(?:ignor|skip|missing|unexpected|not (?:in|saved)|only|without|new head|head is)",
    re.IGNORECASE,
)


_DEEPEST = 6


class IgnoredIncompatibleKeys(Rule):
    """## What it does

    Reports `load_state_dict(..., strict=False)` whose result is thrown away, for a state dict that comes straight from
    a file.

    ## Why is this bad?

    With `strict=False` keys that do not fit are passed over. When no key fits (a prefix such as `module.` or `model.`
    is enough) nothing is loaded at all, and the model runs with random weights. Only the result tells. For weights from
    an address, which do not change, it is a hint.

    ## Example

    ```python
    import torch

    state = torch.load("model.pt", weights_only=True)
    model.load_state_dict(state, strict=False)
    ```

    ## Use instead

    ```python
    import torch

    state = torch.load("model.pt", weights_only=True)
    incompatible = model.load_state_dict(state, strict=False)
    assert not incompatible.unexpected_keys, incompatible.unexpected_keys
    ```

    ## Exceptions

    A result that is used in any way; a state dict of which keys were chosen before (a comprehension with `if`, `del`,
    `pop`), or that does not come from a file that the function loads; one that is partial on purpose, as names (`lora`,
    `adapter`, `trainable`), a comment or another branch that loads strictly say; `load_state_dict` methods that call
    the one of their base.

    ## References

    - [Module.load_state_dict](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.load_state_dict)
    """

    code = "TL904"
    name = "ignored-incompatible-keys"
    level = Level.WARNING
    summary = "With `strict=False` nothing may be loaded at all, and only the result tells."

    @on_method("load_state_dict")
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        if not isinstance(parent_of(call), ast.Expr) or not isinstance(call.func, ast.Attribute):
            return
        strict = argument(call, 1, "strict")
        if strict is None or semantics.literal(strict) is not False or not _is_module(call, semantics):
            return
        function = enclosing_function(call)
        if (function is not None and function.name == "load_state_dict") or is_asserted_to_raise(call):
            return
        state = argument(call, 0, "state_dict")
        if (
            state is None
            or not _comes_from_file(state, unit, 0)
            or any(k.arg not in _PARAMETERS for k in call.keywords)
        ):
            return
        if _is_partial(state, unit, 0) or _is_strict_otherwise(call):
            return
        if any(_PARTIAL_STATED.search(comment) for comment in comments_at(call)):
            return
        shown = ast.unparse(call.func.value)
        message = f"Nothing looks at which keys `{shown}.load_state_dict(strict=False)` passes over: it may load none."
        yield self.found(call, message, severity=Severity.HINT if _is_downloaded(state, unit, 0) else None)


def _is_downloaded(state: ast.expr, unit: Unit, depth: int) -> bool:
    """Whether a state dict comes from an address: what is there is known to the author, unlike a file of the user."""
    if depth > _DEEPEST:
        return False
    match state:
        case ast.Name():
            values = [item.value for item in unit.semantics.definitions(state)]
            return bool(values) and all(
                value is not None and _is_downloaded(value, unit, depth + 1) for value in values
            )
        case ast.Subscript(value=value) | ast.Call(func=ast.Attribute(attr="get", value=value)):
            return _is_downloaded(value, unit, depth + 1)
        case ast.Call(func=ast.Name(id=called) | ast.Attribute(attr=called)):
            return called.endswith("_url")
        case _:
            return False


def _is_module(call: ast.Call, semantics: Semantics) -> bool:
    """Whether the method is that of a module: by the kind of the object, or by the keyword that only modules have."""
    assert isinstance(call.func, ast.Attribute)
    receiver = call.func.value
    if isinstance(receiver, ast.Call) and isinstance(receiver.func, ast.Name) and receiver.func.id == "super":
        return False
    kind = semantics.kind(receiver)
    if kind is None:
        return argument(call, None, "strict") is not None
    if kind.class_node is not None and semantics.find_method(kind.class_node, "load_state_dict") is not None:
        return False
    return kind.is_module


def _comes_from_file(state: ast.expr, unit: Unit, depth: int) -> bool:
    """Whether a state dict is what a file holds, with all its keys: those that do not fit are then not known."""
    if depth > _DEEPEST:
        return False
    match state:
        case ast.Name(id=name):
            if _changes_keys(state, name, unit):
                return False
            definitions = unit.semantics.definitions(state)
            values = [item.value for item in definitions if item.kind is Binding.ASSIGNMENT and not item.path]
            if not values or len(values) != len(definitions):
                return False
            return all(value is not None and _comes_from_file(value, unit, depth + 1) for value in values)
        case ast.Call(func=ast.Attribute(attr="get", value=value)) | ast.Subscript(value=value):
            return _comes_from_file(value, unit, depth + 1)
        case ast.Call(func=ast.Name(id=called) | ast.Attribute(attr=called)):
            name = unit.semantics.name(state.func)
            return bool(name) and not name.startswith(".") and "load" in called and not _CHOOSES.search(called)
        case ast.DictComp(value=ast.Name(id=kept), generators=[ast.comprehension(ifs=[]) as source]):
            match source:  # `{key.replace("module.", ""): value for key, value in state.items()}` keeps them all
                case ast.comprehension(
                    target=ast.Tuple(elts=[ast.Name(), ast.Name(id=item)]),
                    iter=ast.Call(func=ast.Attribute(attr="items", value=value)),
                ):
                    return item == kept and _comes_from_file(value, unit, depth + 1)
            return False
        case ast.IfExp(body=body, orelse=orelse):
            return all(_comes_from_file(side, unit, depth + 1) for side in (body, orelse))
        case _:
            return False


def _is_partial(state: ast.expr, unit: Unit, depth: int) -> bool:
    """Whether a state dict, what it is bound to or its file is called after a part of a model."""
    if depth > _DEEPEST:
        return False
    for node in ast.walk(state):
        text = ""
        match node:
            case ast.Name(id=text) | ast.Attribute(attr=text) | ast.Constant(value=str(text)):
                pass
        if text and _PARTIAL.search(text):
            return True
    values = [item.value for item in unit.semantics.definitions(state)] if isinstance(state, ast.Name) else []
    return any(value is not None and _is_partial(value, unit, depth + 1) for value in values)


def _is_strict_otherwise(call: ast.Call) -> bool:
    """Whether the other branch of an ``if`` loads strictly: then this one is loose on purpose."""
    statement = parent_of(call)
    branch = parent_of(statement) if statement is not None else None
    if not isinstance(branch, ast.If) or not branch.orelse:
        return False
    other = branch.orelse if statement in branch.body else branch.body
    return any(
        isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "load_state_dict"
        for one in other
        for node in nodes_within(one, ast.Call)
    )


def _changes_keys(state: ast.Name, name: str, unit: Unit) -> bool:
    """Whether the function removes keys from a name's state dict or sets some."""
    function = enclosing_function(state)
    nodes = (
        nodes_within(function, ast.Subscript, ast.Call)
        if function is not None
        else (node for kind in (ast.Subscript, ast.Call) for node in unit.all(kind))
    )
    for node in nodes:
        match node:
            case ast.Subscript(value=ast.Name(id=changed), ctx=ast.Store() | ast.Del()) if changed == name:
                return True
            case ast.Call(func=ast.Attribute(value=ast.Name(id=changed), attr=method)):
                if changed == name and method in _CHANGES:
                    return True
    return False
