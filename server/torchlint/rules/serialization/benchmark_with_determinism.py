from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from torchlint.idioms.surroundings.called_code import function_run_by
from torchlint.idioms.values.iterators import can_follow
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_attribute_set
from torchlint.semantics.nodes import argument, enclosing_function
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

    @on_attribute_set(lambda name: name == "benchmark")
    def check(self, statement: ast.Assign, unit: Unit) -> Iterator[Diagnosis]:
        if not _sets(statement, _BENCHMARK, True, unit):
            return
        if _sets(statement, _DETERMINISTIC, True, unit):
            yield self._diagnosis(statement, statement)
            return
        rest = [item for item in unit.all(ast.Assign) if _is_alongside(item, statement)]
        if any(_sets(item, _BENCHMARK, False, unit) and _follows(statement, item) for item in rest):
            return
        calls = [item for item in unit.all(ast.Expr) if _is_alongside(item, statement)]
        flags = [item for item in rest if _sets(item, _DETERMINISTIC, True, unit)]
        asked = [item for item in calls if _chooses_algorithms(item, True, unit)]
        given_up = [item for item in rest if _sets(item, _DETERMINISTIC, False, unit)]
        allowed = [item for item in calls if _chooses_algorithms(item, False, unit)]
        pairs: list[tuple[ast.stmt, Sequence[ast.stmt]]] = [(item, given_up) for item in flags]
        pairs += [(item, allowed) for item in asked]
        for other, taken_back in pairs:
            if any(_follows(other, item) and _are_on_one_path(item, statement) for item in taken_back):
                continue
            if _are_on_one_path(other, statement):
                yield self._diagnosis(statement, other)
                return
        if given_up or allowed:
            return
        for call in calls:
            if _are_on_one_path(call, statement):
                asking = _asked_by(call, _follows(statement, call), unit)
                if asking is not None:
                    yield self._diagnosis(statement, asking)
                    return

    def _diagnosis(self, statement: ast.Assign, asking: ast.stmt) -> Diagnosis:
        message = "`cudnn.benchmark = True` undoes the determinism asked for: it may choose another algorithm."
        fix = FixPlan("Set it to `False`", "unsafe", lambda edit: edit.replace(statement.value, "False"))
        return self.found(
            statement,
            message,
            related=[(asking, "determinism is asked for")] if asking is not statement else [],
            fixes=[fix] if len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Attribute) else [],
        )


def _asked_by(statement: ast.Expr, later: bool, unit: Unit) -> ast.stmt | None:
    """Where a function of the file that a statement calls asks for determinism on each of its paths. ``later``: what it
    says of `benchmark` itself comes last."""
    call = statement.value
    function = function_run_by(call.func, unit.semantics) if isinstance(call, ast.Call) else None
    asking: ast.stmt | None = None
    for item in function.body if function is not None else ():
        if isinstance(item, ast.Assign):
            if _sets(item, _BENCHMARK, False, unit) and later:
                return None
            if _sets(item, _DETERMINISTIC, True, unit):
                asking = item
        elif isinstance(item, ast.Expr) and _chooses_algorithms(item, True, unit):
            asking = item
        elif any(isinstance(node, ast.Return) for node in ast.walk(item)) and asking is None:
            return None
    return asking


def _sets(statement: ast.Assign, name: str, value: bool, unit: Unit) -> bool:
    given = _given(statement, name, unit)
    return given is not None and unit.semantics.literal(given) is value


def _given(statement: ast.Assign, name: str, unit: Unit) -> ast.expr | None:
    """What a statement assigns to a switch, in a tuple too."""
    tail = name.rpartition(".")[2]
    for target in statement.targets:
        pairs = [(target, statement.value)]
        match target, statement.value:
            case ast.Tuple(elts=targets), ast.Tuple(elts=values) if len(targets) == len(values):
                pairs = list(zip(targets, values, strict=True))
        for one, value in pairs:
            if isinstance(one, ast.Attribute) and one.attr == tail and unit.semantics.is_named(one, name):
                return value
    return None


def _chooses_algorithms(statement: ast.Expr, deterministic: bool, unit: Unit) -> bool:
    match statement.value:
        case ast.Call() as call if unit.semantics.is_named(call.func, "torch.use_deterministic_algorithms"):
            return unit.semantics.literal(argument(call, 0, "mode")) is deterministic
        case _:
            return False


def _is_alongside(one: ast.stmt, other: ast.stmt) -> bool:
    return one is not other and enclosing_function(one) is enclosing_function(other)


def _are_on_one_path(one: ast.stmt, other: ast.stmt) -> bool:
    return _follows(one, other) or _follows(other, one)


def _follows(first: ast.stmt, second: ast.stmt) -> bool:
    """Whether one path leads over both statements, the first one before the second (of two parts: in any order)."""
    if part_of(first) is part_of(second) and first.lineno > second.lineno:
        return False
    return can_follow(first, second)
