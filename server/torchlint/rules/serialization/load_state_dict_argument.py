from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.fixes.editor import Editor
from torchlint.idioms.surroundings.expected_errors import is_asserted_to_raise
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_method
from torchlint.semantics.kinds import What
from torchlint.semantics.literals import literal_of
from torchlint.semantics.nodes import argument
from torchlint.semantics.scopes import Binding, last_name
from torchlint.semantics.unit import Unit

_DEEPEST = 3
_ITERATORS = frozenset(("parameters", "named_parameters", "buffers", "named_buffers"))


class LoadStateDictArgument(Rule):
    """## What it does

    Reports `load_state_dict` of a path, of a whole module, optimizer or scheduler, of `parameters()`, or of
    `state_dict` without the brackets that call it.

    ## Why is this bad?

    It takes the dict, not the file and not the object: the call raises "Expected state_dict to be dict-like".

    ## Example

    ```python
    import torch
    from torch import nn

    model = nn.Linear(4, 2)
    model.load_state_dict("model.pt")
    ```

    ## Use instead

    ```python
    import torch
    from torch import nn

    model = nn.Linear(4, 2)
    model.load_state_dict(torch.load("model.pt", map_location="cpu"))
    ```

    ## Exceptions

    Objects of classes of your own, whose `load_state_dict` may take anything.

    ## References

    - [Saving and loading models](https://docs.pytorch.org/tutorials/beginner/saving_loading_models.html)
    """

    code = "TL905"
    name = "load-state-dict-argument"
    level = Level.ERROR
    fix = FixKind.UNSAFE
    summary = "`load_state_dict` takes the dict of tensors: this raises."

    @on_method("load_state_dict")
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        assert isinstance(call.func, ast.Attribute)
        state = argument(call, 0, "state_dict")
        if state is None or not _has_torchs_own(call.func, unit) or is_asserted_to_raise(call):
            return
        shown = ast.unparse(state).replace("'", '"')
        if _is_path(state, unit):
            message = f"`load_state_dict` takes a dict, not a path: `{shown}` has to be loaded first."
            fix = FixPlan("Load the file", "unsafe", lambda edit: _load(edit, state))
        elif (iterator := _iterates(state, unit)) is not None:
            message = f"`load_state_dict` takes a dict by name, not an iterator: `{shown}` has to be `state_dict()`."
            fix = FixPlan("Pass `state_dict()`", "unsafe", lambda edit: _pass_state(edit, state, iterator))
        elif isinstance(state, ast.Attribute) and state.attr == "state_dict" and _has_state_dict(state.value, unit):
            message = f"`load_state_dict` takes a dict, and `{shown}` is the method that gives it: call it."
            fix = FixPlan("Call it", "safe", lambda edit: edit.insert_after(state, "()"))
        elif _has_state_dict(state, unit):
            message = f"`load_state_dict` takes a dict, not the object that has one: `{shown}.state_dict()`."
            fix = FixPlan("Pass its `state_dict()`", "unsafe", lambda edit: edit.insert_after(state, ".state_dict()"))
        else:
            return
        yield self.found(state, message, fixes=[fix])


def _has_torchs_own(function: ast.Attribute, unit: Unit) -> bool:
    """Whether the method is torch's: not one that a class of this file defines."""
    owner = unit.semantics.class_of_self(function.value)
    kind = unit.semantics.kind(function.value) if owner is None else None
    if owner is None and kind is not None:
        owner = kind.class_node
    if owner is None:
        return True
    known = unit.semantics.is_module_class(owner) and not unit.semantics.has_unknown_base(owner)
    return known and unit.semantics.find_method(owner, "load_state_dict") is None


def _is_path(state: ast.expr, unit: Unit, depth: int = 0) -> bool:
    semantics = unit.semantics
    kind = semantics.kind(state)
    if kind is not None:
        return kind.what is What.TEXT and kind.proven
    value = semantics.value_of(state)
    match value:
        case ast.Attribute(value=owner, attr=attribute) if depth < _DEEPEST:
            holder = semantics.class_of_self(owner)
            writes = semantics.module.attribute_writes(holder, attribute) if holder is not None else ()
            values = [item.value for item in writes if not item.path and not item.augmented]
            if holder is None and isinstance(owner, ast.Name):
                return _is_text_option(owner, attribute, unit)
            return len(values) == len(writes) > 0 and all(
                given is not None and _is_path(given, unit, depth + 1) for given in values
            )
        case ast.BinOp(op=ast.Div(), left=left, right=right):
            # Nothing but a path is divided by a text.
            return _is_text(right, unit) or _is_text(left, unit)
        case _:
            return _is_composed_text(value) or semantics.is_call_to(value, "pathlib.Path", "os.path.join")


def _is_text_option(owner: ast.Name, option: str, unit: Unit) -> bool:
    """Whether an attribute is what a command line gives: a text, or a path."""
    semantics = unit.semantics
    if semantics.module.writes_attribute_of_others(option):
        return False
    for definition in semantics.definitions(owner):
        value = definition.value
        parsed = isinstance(value, ast.Call) and last_name(value.func) in ("parse_args", "parse_known_args")
        if definition.kind is not Binding.PARAMETER and not parsed:
            return False
    declared = [call for call in semantics.module.calls_of("add_argument") if _declares(call, option)]
    return bool(declared) and all(_declares_text(call, unit) for call in declared)


def _declares(call: ast.Call, option: str) -> bool:
    names = [literal_of(item) for item in call.args]
    return any(isinstance(name, str) and name.lstrip("-").replace("-", "_") == option for name in names)


def _declares_text(call: ast.Call, unit: Unit) -> bool:
    if any(item.arg in ("nargs", "action", None) for item in call.keywords):
        return False
    kind = argument(call, None, "type")
    if kind is None:  # argparse leaves a text as it is
        return True
    is_builtin = isinstance(kind, ast.Name) and kind.id == "str" and not unit.semantics.definitions(kind)
    return is_builtin or unit.semantics.is_named(kind, "pathlib.Path")


def _is_text(value: ast.expr, unit: Unit) -> bool:
    kind = unit.semantics.kind(value)
    return _is_composed_text(value) or (kind is not None and kind.what is What.TEXT and kind.proven)


def _iterates(state: ast.expr, unit: Unit) -> ast.Attribute | None:
    """``module.parameters`` of a call that gives an iterator over what a module, known as one, keeps."""
    match state:
        case ast.Call(func=ast.Attribute(attr=method, value=receiver) as function, args=[], keywords=[]):
            kind = unit.semantics.kind(receiver) if method in _ITERATORS else None
            return function if kind is not None and kind.is_module and kind.proven else None
        case _:
            return None


def _is_composed_text(value: ast.expr | None) -> bool:
    """Whether a text is put together: ``path + "_q1"``, ``"net_%d.pth" % epoch``, ``"{}/net".format(folder)``."""
    match value:
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return _is_composed_text(left) or _is_composed_text(right)
        case ast.BinOp(op=ast.Mod(), left=left):
            return _is_composed_text(left)
        case ast.Call(func=ast.Attribute(value=text, attr="format")):
            return _is_composed_text(text)
        case ast.JoinedStr() | ast.Constant(value=str()):
            return True
        case _:
            return False


def _has_state_dict(state: ast.expr, unit: Unit) -> bool:
    kind = unit.semantics.kind(state)
    return kind is not None and kind.proven and (kind.is_module or kind.what in (What.OPTIMIZER, What.SCHEDULER))


def _load(edit: Editor, state: ast.expr) -> None:
    # What is loaded is copied to where the parameters are, so the file's own devices do not matter.
    edit.wrap(state, f"{edit.spell('torch.load')}(", ', map_location="cpu")')


def _pass_state(edit: Editor, state: ast.expr, iterator: ast.Attribute) -> None:
    edit.replace(state, f"{edit.source(iterator.value)}.state_dict()")
