from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.fixes.editor import Editor
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_node
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of
from torchlint.torch_api import functions_in

_WRONG = "torch.functional"


class WrongFunctionalImport(Rule):
    """## What it does

    Reports `import torch.functional as F` and `from torch import functional as F` where a function is used from it that
    only `torch.nn.functional` has.

    ## Why is this bad?

    `torch.functional` is another module, with `einsum`, `norm`, `meshgrid` and the like. `F.relu` or `F.cross_entropy`
    raise an `AttributeError` when they are reached.

    ## Example

    ```python
    import torch.functional as F


    def activate(x):
        return F.relu(x)
    ```

    ## Use instead

    ```python
    import torch.nn.functional as F


    def activate(x):
        return F.relu(x)
    ```

    ## Exceptions

    Files that use only what `torch.functional` has.

    ## References

    - [torch.nn.functional](https://docs.pytorch.org/docs/stable/nn.functional.html)
    """

    code = "TL414"
    name = "wrong-functional-import"
    level = Level.ERROR
    fix = FixKind.UNSAFE
    summary = "`torch.functional` does not have the functions of `torch.nn.functional`."

    @on_node(ast.Import)
    def check_import(self, statement: ast.Import, unit: Unit) -> Iterator[Diagnosis]:
        for alias in statement.names:
            if alias.name == _WRONG and alias.asname:
                yield from self._check(statement, alias.asname, unit)

    @on_node(ast.ImportFrom)
    def check_import_from(self, statement: ast.ImportFrom, unit: Unit) -> Iterator[Diagnosis]:
        if statement.module == "torch" and not statement.level:
            for alias in statement.names:
                if alias.name == "functional":
                    yield from self._check(statement, alias.asname or alias.name, unit)

    def _check(self, statement: ast.Import | ast.ImportFrom, bound: str, unit: Unit) -> Iterator[Diagnosis]:
        missing = _used_through(bound, functions_in("torch.nn.functional") - functions_in(_WRONG), unit)
        if not missing:
            return
        first = missing[0]
        assert isinstance(first.func, ast.Attribute)
        message = (
            f"`{_WRONG}` has no `{first.func.attr}`: `{ast.unparse(first.func)}` raises. "
            "The module is `torch.nn.functional`."
        )
        others = _used_through(bound, functions_in(_WRONG) - functions_in("torch.nn.functional"), unit)
        alone = len(statement.names) == 1 and parent_of(statement) is None
        fixes = []
        if alone and not others:
            fixes = [FixPlan("Import `torch.nn.functional`", "unsafe", lambda edit: _mend(edit, statement, bound))]
        yield self.found(statement, message, related=[(first, "raises here")], fixes=fixes)


def _used_through(bound: str, names: frozenset[str], unit: Unit) -> list[ast.Call]:
    """The calls of some functions through the imported name."""
    module = unit.semantics.module
    return [
        call
        for name in sorted(names)
        if module.mentions_call(name)
        for call in module.calls_of(name)
        if isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id == bound
        and unit.semantics.name(call.func.value) == _WRONG
    ]


def _mend(edit: Editor, statement: ast.Import | ast.ImportFrom, bound: str) -> None:
    if isinstance(statement, ast.Import):
        edit.replace(statement, f"import torch.nn.functional as {bound}")
    else:
        edit.replace(statement, "from torch.nn import functional" + ("" if bound == "functional" else f" as {bound}"))
