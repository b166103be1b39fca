from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.fixes.editor import Editor
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_method
from torchlint.semantics.kinds import What
from torchlint.semantics.nodes import argument
from torchlint.semantics.unit import Unit


class LoadStateDictArgument(Rule):
    """## What it does

    Reports `load_state_dict` of a path, or of a whole module, optimizer or scheduler.

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
        if state is None or not _has_torchs_own(call.func, unit):
            return
        shown = ast.unparse(state).replace("'", '"')
        if _is_path(state, unit):
            message = f"`load_state_dict` takes a dict, not a path: `{shown}` has to be loaded first."
            fix = FixPlan("Load the file", "unsafe", lambda edit: _load(edit, state))
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


def _is_path(state: ast.expr, unit: Unit) -> bool:
    kind = unit.semantics.kind(state)
    if kind is not None:
        return kind.what is What.TEXT and kind.proven
    value = unit.semantics.value_of(state)
    return _is_composed_text(value) or unit.semantics.is_call_to(value, "pathlib.Path", "os.path.join")


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
