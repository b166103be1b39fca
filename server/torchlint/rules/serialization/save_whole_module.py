from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.idioms.modules.module_state import State, state_of
from torchlint.idioms.training.replicas import is_replicated
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_call
from torchlint.semantics.kinds import What
from torchlint.semantics.nodes import argument
from torchlint.semantics.unit import Unit

_NOT_PICKLED_BY_CLASS = ("torch.jit.", "torch.export.", "torch.fx.")


class SaveWholeModule(Rule):
    """## What it does

    Reports `torch.save` of a whole module, alone or as a value of a dict.

    ## Why is this bad?

    The file holds a pickle of the object: it needs the same class at the same import path when it is read, breaks when
    the code is moved or changed, and can only be loaded with `weights_only=False`, which runs code. A state dict holds
    the tensors by name and nothing else.

    ## Example

    ```python
    import torch
    from torch import nn

    model = nn.Linear(4, 2)
    torch.save(model, "model.pt")
    ```

    ## Use instead

    ```python
    import torch
    from torch import nn

    model = nn.Linear(4, 2)
    torch.save(model.state_dict(), "model.pt")
    ```

    What reads the file has to build the module and call `load_state_dict`.

    ## Exceptions

    Modules compiled by TorchScript, copies through an `io.BytesIO`, and objects that are not known to be modules.

    ## References

    - [Saving and loading models](https://docs.pytorch.org/tutorials/beginner/saving_loading_models.html)
    """

    code = "TL903"
    name = "save-whole-module"
    level = Level.WARNING
    fix = FixKind.UNSAFE
    summary = "The file depends on the class and its path, and is not safe to load."

    @on_call("torch.save")
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        saved = argument(call, 0, "obj")
        target = argument(call, 1, "f")
        if saved is None or (target is not None and _is_in_memory(target, unit)):
            return
        for value in _values(saved, unit):
            if _is_module(value, unit):
                yield self._diagnosis(value)

    def _diagnosis(self, value: ast.expr) -> Diagnosis:
        message = f"{_shown(value)} is pickled as a whole: the file depends on its class; save its state dict."
        fix = FixPlan("Save `state_dict()`", "unsafe", lambda edit: edit.insert_after(value, ".state_dict()"))
        return self.found(value, message, fixes=[fix])


def _values(saved: ast.expr, unit: Unit) -> list[ast.expr]:
    """What a file holds: the values of a mapping or list that is written out here or just before, or one value."""
    display = unit.semantics.value_of(saved)
    match display:
        case ast.Dict(values=values):
            return values
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return elements
        case _:
            return [saved]


def _is_in_memory(target: ast.expr, unit: Unit) -> bool:
    """Whether the pickle goes into an ``io.BytesIO``: a copy within one process, whose class cannot have changed."""
    definitions = unit.semantics.definitions(target) if isinstance(target, ast.Name) else ()
    sources = [definition.value for definition in definitions] or [target]
    return any(isinstance(made, ast.Call) and unit.semantics.is_named(made.func, "io.BytesIO") for made in sources)


def _is_module(value: ast.expr, unit: Unit) -> bool:
    owner = unit.semantics.class_of_self(value)
    if owner is not None:
        return unit.semantics.is_module_class(owner)
    if isinstance(value, ast.Attribute) and value.attr == "module" and is_replicated(unit.semantics, value.value):
        return True
    made = unit.semantics.value_of(value)
    if isinstance(made, ast.Call) and unit.semantics.name(made.func).startswith(_NOT_PICKLED_BY_CLASS):
        return False
    kind = unit.semantics.kind(value)
    if kind is None or not kind.is_module or not kind.proven:
        return False
    return kind.what is not What.LOSS or state_of(kind, unit.semantics) is State.WEIGHTS


def _shown(value: ast.expr) -> str:
    text = ast.unparse(value)
    return f"`{text}`" if len(text) <= 50 else "The module"
