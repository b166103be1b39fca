from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.fixes.editor import Editor
from torchlint.idioms.iterators import can_follow
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_node
from torchlint.semantics.semantics import enclosing_function
from torchlint.semantics.unit import Unit
from torchlint.syntax import part_of

_BENCHMARK = "torch.backends.cudnn.benchmark"
_DETERMINISTIC = "torch.backends.cudnn.deterministic"


class BenchmarkWithDeterminism(Rule):
    """## What it does

    Reports `torch.backends.cudnn.benchmark = True` where deterministic algorithms are asked for on the same path:
    `torch.backends.cudnn.deterministic = True` or `torch.use_deterministic_algorithms(True)`.

    ## Why is this bad?

    `benchmark` times several algorithms and takes the fastest, which may be another one in the next run: results differ
    although determinism was asked for.

    ## Example

    ```python
    import torch


    def seed_everything(seed):
        torch.manual_seed(seed)
        torch.backends.cudnn.deterministic = True
        torch.backends.cudnn.benchmark = True
    ```

    ## Use instead

    ```python
    import torch


    def seed_everything(seed):
        torch.manual_seed(seed)
        torch.backends.cudnn.deterministic = True
        torch.backends.cudnn.benchmark = False
    ```

    ## Exceptions

    Alternatives in branches (`if seed is not None: ... else: ...`), and values that are not literal.

    ## References

    - [Reproducibility](https://docs.pytorch.org/docs/stable/notes/randomness.html)
    """

    code = "TL908"
    name = "benchmark-with-determinism"
    level = Level.WARNING
    fix = FixKind.UNSAFE
    summary = "Benchmarking may choose another algorithm in each run, against the determinism asked for."

    @on_node(ast.Assign)
    def check(self, statement: ast.Assign, unit: Unit) -> Iterator[Diagnosis]:
        if not _sets(statement, _BENCHMARK, True, unit):
            return
        rest = [item for item in unit.all(ast.Assign) if _is_alongside(item, statement)]
        if any(_sets(item, _BENCHMARK, False, unit) and _follows(statement, item) for item in rest):
            return
        others: list[ast.stmt] = [item for item in rest if _sets(item, _DETERMINISTIC, True, unit)]
        others += [
            item for item in unit.all(ast.Expr) if _asks_for_determinism(item, unit) and _is_alongside(item, statement)
        ]
        for other in others:
            if _follows(other, statement) or _follows(statement, other):
                message = "`cudnn.benchmark = True` undoes the determinism asked for: it may choose another algorithm."
                fix = FixPlan("Set it to `False`", "unsafe", lambda edit: _set_false(edit, statement))
                yield self.found(statement, message, related=[(other, "determinism is asked for")], fixes=[fix])
                return


def _sets(statement: ast.Assign, name: str, value: bool, unit: Unit) -> bool:
    tail = name.rpartition(".")[2]
    named = any(
        isinstance(target, ast.Attribute) and target.attr == tail and unit.semantics.is_named(target, name)
        for target in statement.targets
    )
    return named and unit.semantics.literal(statement.value) is value


def _asks_for_determinism(statement: ast.Expr, unit: Unit) -> bool:
    match statement.value:
        case ast.Call(args=[mode]) as call:
            return (
                unit.semantics.is_named(call.func, "torch.use_deterministic_algorithms")
                and unit.semantics.literal(mode) is True
            )
        case _:
            return False


def _is_alongside(one: ast.stmt, other: ast.stmt) -> bool:
    return one is not other and enclosing_function(one) is enclosing_function(other)


def _follows(first: ast.stmt, second: ast.stmt) -> bool:
    """Whether one path leads over both statements, the first one before the second (of two parts: in any order)."""
    if part_of(first) is part_of(second) and first.lineno > second.lineno:
        return False
    return can_follow(first, second)


def _set_false(edit: Editor, statement: ast.Assign) -> None:
    edit.replace(statement.value, "False")
