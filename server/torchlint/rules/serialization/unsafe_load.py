from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.idioms.fallbacks import in_version_fallback
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_call
from torchlint.semantics.scopes import Binding
from torchlint.semantics.semantics import argument, enclosing_function, has_unknown_arguments
from torchlint.semantics.unit import Unit


class UnsafeLoad(Rule):
    """## What it does

    Reports `torch.load` that unpickles arbitrary objects: `weights_only=False`, `pickle_module=` without
    `weights_only`, or no `weights_only` in a project that allows torch older than 2.6, where the default was `False`.

    ## Why is this bad?

    A pickle runs code when it is loaded: a checkpoint from elsewhere can do anything on your machine. With
    `weights_only=True` only tensors and plain containers are read.

    ## Example

    ```python
    import torch

    state = torch.load("model.pt", weights_only=False)
    ```

    ## Use instead

    ```python
    import torch

    state = torch.load("model.pt", weights_only=True)
    ```

    ## Exceptions

    A file (or buffer) that the same function writes with `torch.save`. While nothing is known about the project's torch
    version, the absence of the argument is not reported; nor is it where the code provides for several versions.

    ## References

    - [torch.load](https://docs.pytorch.org/docs/stable/generated/torch.load.html)
    """

    code = "TL901"
    name = "unsafe-load"
    level = Level.WARNING
    fix = FixKind.UNSAFE
    summary = "Loading a pickle runs whatever code it holds."

    @on_call("torch.load")
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        message = self._message(call, unit)
        if message is None or _loads_own_file(call, unit):
            return
        fix = FixPlan(
            "Load with `weights_only=True`", "unsafe", lambda edit: edit.add_keyword(call, "weights_only", "True")
        )
        # With a pickle module of its own, `weights_only=True` raises.
        yield self.found(call, message, fixes=[] if _has_pickle_module(call, unit) else [fix])

    def _message(self, call: ast.Call, unit: Unit) -> str | None:
        given = argument(call, None, "weights_only")
        if given is not None:
            if unit.semantics.literal(given) is False:
                return "`weights_only=False` lets the file run any code while it is loaded."
            return None
        if has_unknown_arguments(call):
            return None
        if _has_pickle_module(call, unit):
            return "`pickle_module` without `weights_only` unpickles any object: the file can run any code."
        if unit.torch is not None and unit.torch.may_be_below("2.6") and not in_version_fallback(unit.semantics, call):
            return "Below torch 2.6, which this project allows, `torch.load` runs any code in the file by default."
        return None


def _has_pickle_module(call: ast.Call, unit: Unit) -> bool:
    given = argument(call, 2, "pickle_module")
    return given is not None and unit.semantics.literal(given) is not None


def _loads_own_file(call: ast.Call, unit: Unit) -> bool:
    """Whether the function that loads a file also writes it with ``torch.save``."""
    semantics = unit.semantics
    loaded = argument(call, 0, "f")
    if loaded is None:
        return False
    function = enclosing_function(call)
    return any(
        enclosing_function(other) is function
        and semantics.is_named(other.func, "torch.save")
        and _is_same_file(loaded, argument(other, 1, "f"), unit)
        for other in semantics.module.calls_of("save")
    )


def _is_same_file(loaded: ast.expr, saved: ast.expr | None, unit: Unit) -> bool:
    if saved is None:
        return False
    one, other = _file(loaded, unit), _file(saved, unit)
    return one is other or ast.dump(loaded) == ast.dump(saved) or ast.dump(one) == ast.dump(other)


def _file(expression: ast.expr, unit: Unit) -> ast.expr:
    """What a file or path is made from: the path of ``with open(path, "wb") as f``, the ``BytesIO()`` of a buffer."""
    value = unit.semantics.value_of(expression) or expression
    if isinstance(value, ast.Name):
        definitions = unit.semantics.definitions(value)
        if len(definitions) == 1 and definitions[0].kind is Binding.WITH and definitions[0].value is not None:
            value = definitions[0].value
    match value:
        case (
            ast.Call(func=ast.Name(id="open"), args=[path, *_])
            | ast.Call(func=ast.Attribute(attr="open", value=path), args=[ast.Constant()])
        ):
            return unit.semantics.value_of(path) or path
        case _:
            return value
