from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from torchlint.idioms.training.vocabulary import block_of, statement_of
from torchlint.rules.base import Diagnosis, Level, Rule, on_call
from torchlint.semantics.nodes import contains, enclosing_class, enclosing_function, has_unknown_arguments, nodes_within
from torchlint.semantics.scopes import FunctionNode
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of


@dataclass(frozen=True, slots=True)
class _Source:
    """A global random generator: what seeds it, and what draws from it."""

    shown: str
    seeds: tuple[str, ...]
    draws: tuple[str, ...]


def _named(prefix: str, names: str) -> tuple[str, ...]:
    return tuple(f"{prefix}.{name}" for name in names.split())


_SOURCES = (
    _Source(
        "random",
        ("random.seed", "random.setstate"),
        _named("random", "random randint randrange shuffle choice choices sample uniform gauss betavariate"),
    ),
    _Source(
        "NumPy",
        ("numpy.random.seed", "numpy.random.set_state"),
        _named(
            "numpy.random",
            "rand randn randint random random_sample choice shuffle permutation uniform normal binomial beta poisson",
        ),
    ),
    _Source(
        "torch",
        (
            "torch.manual_seed",
            "torch.set_rng_state",
            "torch.seed",
            "torch.cuda.manual_seed",
            "torch.cuda.manual_seed_all",
        ),
        _named("torch", "rand randn randint randperm rand_like randn_like randint_like normal bernoulli multinomial"),
    ),
)
_SEEDS = ("random.seed", "numpy.random.seed", "torch.manual_seed")
_SEEDING_NAME = re.compile(r"seed|determin|reproduc", re.IGNORECASE)
#: Functions that many projects have, and that seed more than one generator.
_SEEDING_CALLS = (
    "seed_everything set_seed set_seeds set_random_seed seed_all set_all_seeds setup_seed fix_seed init_seeds"
).split()
_OWN_SEEDS = frozenset(("seed", "manual_seed", "manual_seed_all", "initial_seed"))
#: Functions that seed for themselves: workers, tests, demonstrations of one input.
_NOT_THE_RUN = re.compile(r"worker|test|init_fn|example|sample|demo|__init__|__getitem__|reset", re.IGNORECASE)
#: Functions that are a whole program.
_PROGRAM = re.compile(r"main|train|run|fit|seed", re.IGNORECASE)
#: What is drawn for other things than training: ports, names.
_HARMLESS = re.compile(r"port|name|path|url|addr|uuid|tmp|temp|color|colour|plot|show|fig|print|log", re.IGNORECASE)


class PartialSeeding(Rule):
    """## What it does

    Reports a program that seeds one of the global generators of `random`, NumPy and torch, and draws from another one
    that nothing in the file seeds.

    ## Why is this bad?

    The three have nothing to do with each other. The run looks reproducible and is not: the order of the data or the
    augmentation differs from run to run.

    ## Example

    ```python
    import random

    import torch

    torch.manual_seed(0)
    files = list_files()
    random.shuffle(files)
    ```

    ## Use instead

    ```python
    import random

    import torch

    random.seed(0)
    torch.manual_seed(0)
    files = list_files()
    random.shuffle(files)
    ```

    ## Exceptions

    Files that call something else by the name of seeding (`seed_everything`, `set_seed`), generators of their own
    (`default_rng`, `torch.Generator`), seeding in workers and tests, a function that seeds for what its next statement
    draws, and draws for ports, names or plots.

    ## References

    - [Reproducibility](https://docs.pytorch.org/docs/stable/notes/randomness.html)
    """

    code = "TL907"
    name = "partial-seeding"
    level = Level.WARNING
    summary = "One generator is seeded and another is drawn from: the run is not reproducible."

    @on_call(*_SEEDS)
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        if not _seeds_the_run(call, semantics) or _first_seed(semantics) is not call or _seeds_otherwise(semantics):
            return
        for source in _SOURCES:
            if any(True for _ in _calls(semantics, source.seeds)):
                continue
            draw = next((draw for draw in _calls(semantics, source.draws) if _matters(draw)), None)
            if draw is not None:
                seeded = ast.unparse(call.func)
                drawing = ast.unparse(draw.func)
                message = f"`{seeded}` is called, but nothing seeds {source.shown}, which `{drawing}` draws from."
                yield self.found(call, message, related=[(draw, "drawn from an unseeded generator")])
                return


def _calls(semantics: Semantics, names: tuple[str, ...]) -> Iterator[ast.Call]:
    for name in names:
        for call in semantics.module.calls_of(name.rpartition(".")[2]):
            if semantics.is_named(call.func, name):
                yield call


def _seeds_the_run(call: ast.Call, semantics: Semantics) -> bool:
    """Whether a seed is set for the whole run: with a value, at the start of a program or in a function for it."""
    if not (call.args or call.keywords) or has_unknown_arguments(call) or enclosing_class(call) is not None:
        return False
    if any(isinstance(node, ast.Attribute) and node.attr in ("time", "initial_seed") for node in ast.walk(call)):
        return False
    function = enclosing_function(call)
    if function is not None and not (_may_start_the_run(function) and not _is_for_next_draw(call, function, semantics)):
        return False
    holder = parent_of(call)
    while holder is not None:
        if isinstance(holder, ast.With | ast.For | ast.While | ast.Lambda):
            return False
        holder = parent_of(holder)
    return True


def _may_start_the_run(function: FunctionNode) -> bool:
    """Whether a function may seed the run: no context manager, no nested function, none for workers or tests."""
    if _NOT_THE_RUN.search(function.name) or enclosing_function(function) is not None:
        return False
    return next(nodes_within(function, ast.Yield), None) is None


def _is_for_next_draw(call: ast.Call, function: FunctionNode, semantics: Semantics) -> bool:
    """Whether a function that is not the program's seeds only what its next statement draws: a split that stays the
    same, a made-up series."""
    if _PROGRAM.search(function.name):
        return False
    statement = statement_of(call)
    block = block_of(statement)
    following = block[block.index(statement) + 1 :][:1]
    sources = [source for source in _SOURCES if semantics.is_named(call.func, *source.seeds)]
    draws = [draw for source in sources for draw in _calls(semantics, source.draws)]
    return any(contains(item, draw) for item in following for draw in draws)


def _first_seed(semantics: Semantics) -> ast.Call | None:
    return next((call for call in _calls(semantics, _SEEDS) if _seeds_the_run(call, semantics)), None)


def _seeds_otherwise(semantics: Semantics) -> bool:
    """Whether the file imports or calls anything else that says that it seeds."""
    module = semantics.module
    if any(semantics.local_function(call.func) is None for name in _SEEDING_CALLS for call in module.calls_of(name)):
        return True
    return any(
        _SEEDING_NAME.search(name) and imported.rpartition(".")[2] not in _OWN_SEEDS
        for name, imported in module.names_imported()
    )


def _matters(draw: ast.Call) -> bool:
    """Whether a draw may change what is trained: it has no generator of its own, and is not for a port or a name."""
    if any(item.arg in ("generator", None) for item in draw.keywords):
        return False
    function = enclosing_function(draw)
    if function is not None and _HARMLESS.search(function.name):
        return False
    holder: ast.AST | None = draw
    while holder is not None and not isinstance(holder, ast.stmt):
        holder = parent_of(holder)
    return holder is None or isinstance(holder, ast.FunctionDef | ast.ClassDef) or not _HARMLESS.search(_header(holder))


def _header(statement: ast.AST) -> str:
    match statement:
        case ast.If(test=test) | ast.While(test=test):
            return ast.unparse(test)
        case ast.For(iter=source):
            return ast.unparse(source)
        case ast.With() | ast.Try():
            return ""
        case _:
            return ast.unparse(statement)
