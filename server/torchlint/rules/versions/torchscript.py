from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.idioms.surroundings.fallbacks import in_version_fallback
from torchlint.rules.base import Diagnosis, Level, Rule, on_reference
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

#: What takes the place of each function, as its warning in torch 2.13 says. `ignore`, `unused`, `export`, `Final`,
#: `is_scripting` and their kind are only marks for the compiler, and stay in code that others may script.
_INSTEAD = {
    "torch.jit.script": "`torch.compile` makes it fast, `torch.export` gives a program for use without Python",
    "torch.jit.trace": "`torch.compile` makes it fast, `torch.export` gives a program for use without Python",
    "torch.jit.trace_module": "`torch.export` gives a program for use without Python",
    "torch.jit.script_method": "`torch.compile` takes the whole module",
    "torch.jit.script_if_tracing": "`torch.export` follows control flow by `torch.cond`",
    "torch.jit.freeze": "`torch.compile` makes it fast",
    "torch.jit.optimize_for_inference": "`torch.compile` makes it fast",
    "torch.jit.save": "`torch.export.save` writes what `torch.export` gives",
    "torch.jit.load": "`torch.export.load` reads what `torch.export.save` wrote",
    "torch.jit.fork": "`torch.compile` takes the whole function",
    "torch.jit.wait": "`torch.compile` takes the whole function",
}
_SINCE = "2.10"


class Torchscript(Rule):
    """## What it does

    Reports functions that compile, trace, save or load TorchScript: `torch.jit.script`, `trace`, `freeze`, `save`,
    `load` and their kind.

    ## Why is this bad?

    TorchScript is deprecated since torch 2.10 and gets no new operators, and it does not work with Python 3.14 on.
    `torch.compile` makes a module or function fast; `torch.export` gives a program that runs without its source.

    ## Example

    ```python
    import torch

    fast = torch.jit.script(model)
    ```

    ## Use instead

    ```python by-hand
    import torch

    fast = torch.compile(model)
    ```

    A program to be run elsewhere comes from `torch.export.export(model, (example,))`. There is no fix: which of the two
    is meant depends on what becomes of the result.

    ## Exceptions

    Marks for whoever scripts the code (`torch.jit.ignore`, `unused`, `export`, `Final`, `annotate`), questions
    (`torch.jit.is_scripting()`, `isinstance(x, torch.jit.ScriptModule)`); projects that allow only releases before
    2.10, and code for several versions; tests that scripting works.

    ## References

    - [TorchScript](https://docs.pytorch.org/docs/stable/jit.html)
    - [torch.export](https://docs.pytorch.org/docs/stable/export.html)
    """

    code = "TL012"
    name = "torchscript"
    level = Level.HINT
    summary = "TorchScript is deprecated; `torch.compile` and `torch.export` take its place."

    @on_reference(*(name.rpartition(".")[2] for name in _INSTEAD))
    def check(self, node: ast.expr, unit: Unit) -> Iterator[Diagnosis]:
        if unit.torch is not None and not unit.torch.may_be_at_least(_SINCE):
            return
        name = unit.semantics.name(node)
        instead = _INSTEAD.get(name)
        if instead is None or _is_in_test(node) or in_version_fallback(unit.semantics, node):
            return
        yield self.found(node, f"`{name}` is deprecated since torch {_SINCE}: {instead}.", deprecated=True)


def _is_in_test(node: ast.AST) -> bool:
    """Whether a test checks that something can be scripted."""
    current = parent_of(node)
    while current is not None:
        if isinstance(current, ast.FunctionDef | ast.AsyncFunctionDef) and current.name.startswith("test"):
            return True
        current = parent_of(current)
    return False
