from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchlint.idioms.values.random_generators import CUDA_SEEDS, GENERATORS, calls_named, draws_from, may_be_seeded
from torchlint.regex import regex
from torchlint.rules.base import Diagnosis, Level, Rule, on_call
from torchlint.semantics.nodes import (
    contains,
    enclosing_class,
    enclosing_function,
    has_unknown_arguments,
    nodes_within,
    statement_of,
)
from torchlint.semantics.scopes import FunctionNode, last_name
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

_SEEDS = ("random.seed", "numpy.random.seed", "torch.manual_seed", *CUDA_SEEDS)
_SEEDING_NAME = regex(r"seed|determin|reproduc", re.IGNORECASE)
#: Functions that many projects have, and that seed more than one generator.
_SEEDING_CALLS = (
    "seed_everything set_seed set_seeds set_random_seed set_random_seeds set_rng_seed set_global_seed set_global_seeds"
    " set_torch_seed set_seed_everywhere seed_all set_all_seeds setup_seed setup_seeds fix_seed fix_seeds"
    " fix_random_seed fix_random_seeds init_seed init_seeds init_random_seed seed_torch torch_seed random_seed"
    " same_seeds seed_rng set_deterministic set_determinism make_deterministic make_reproducible"
    " enable_full_determinism"
).split()
_OWN_SEEDS = frozenset(("seed", "manual_seed", "manual_seed_all", "initial_seed"))
#: Packages whose `seed` is known, or has nothing to do with torch.
_KNOWN_ROOTS = frozenset(("random", "numpy", "torch", "gym", "gymnasium", "tensorflow", "cupy", "jax"))
#: Functions that seed for themselves: workers, tests, demonstrations of one input.
_NOT_THE_RUN = regex(
    r"worker|test|init_fn|example|sample|demo|__init__|__getitem__|reset|create_|generate_|synthetic|split",
    re.IGNORECASE,
)
#: Functions that are a whole program.
_PROGRAM = regex(r"main|train|run|fit|seed", re.IGNORECASE)
#: What is drawn for other things than training: ports, names.
_HARMLESS = regex(r"port|name|path|url|addr|uuid|tmp|temp|color|colour|plot|show|fig|print|log", re.IGNORECASE)
_COLOURS = regex(r"colou?r", re.IGNORECASE)


class PartialSeeding(Rule):
    """## What it does

    Reports a program that seeds one of the global generators of `random`, NumPy and torch, and draws from another one
    that nothing in the file seeds. A `DataLoader` that shuffles and the initial weights of layers draw from torch, and
    so does what is seeded only for the GPUs; `train_test_split` without `random_state` draws from NumPy.

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
        for generator in GENERATORS:
            if may_be_seeded(semantics, generator):
                continue
            draw = next((draw for draw in draws_from(semantics, generator) if _matters(draw)), None)
            if draw is not None:
                seeded = ast.unparse(call.func)
                drawing = ast.unparse(draw.func)
                message = f"`{seeded}` is called, but nothing seeds {generator.shown}, which `{drawing}` draws from."
                yield self.found(call, message, related=[(draw, "drawn from an unseeded generator")])
                return


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
    """Whether a function that is not the program's seeds only what it draws itself: a split that stays the same, a
    made-up series. With a seed that it is given that is the next statement, with one of its own any after it."""
    if _PROGRAM.search(function.name):
        return False
    statement = statement_of(call)
    block = semantics.block_of(statement)
    following = block[block.index(statement) + 1 :]
    if not all(isinstance(given, ast.Constant) for given in call.args):
        following = following[:1]
    seeded = [generator for generator in GENERATORS if semantics.is_named(call.func, *generator.seeds)]
    draws = [draw for generator in seeded for draw in draws_from(semantics, generator)]
    return any(contains(item, draw) for item in following for draw in draws)


def _first_seed(semantics: Semantics) -> ast.Call | None:
    return next((call for call in calls_named(semantics, _SEEDS) if _seeds_the_run(call, semantics)), None)


def _seeds_otherwise(semantics: Semantics) -> bool:
    """Whether the file imports or calls anything else that says that it seeds."""
    module = semantics.module
    if any(_seeds_a_library(call, semantics) for call in module.calls_of("seed")):
        return True
    if any(semantics.local_function(call.func) is None for name in _SEEDING_CALLS for call in module.calls_of(name)):
        return True
    return any(
        _SEEDING_NAME.search(name) and imported.rpartition(".")[2] not in _OWN_SEEDS
        for name, imported in module.names_imported()
    )


def _seeds_a_library(call: ast.Call, semantics: Semantics) -> bool:
    """Whether ``backend.seed(0)`` seeds what is not known: all of torch, maybe."""
    return any(name.partition(".")[0] not in _KNOWN_ROOTS for name in semantics.names(call.func))


def _matters(draw: ast.Call) -> bool:
    """Whether a draw may change what is trained: it has no generator of its own, and is not for a port or a name."""
    if any(item.arg in ("generator", None) for item in draw.keywords):
        return False
    function = enclosing_function(draw)
    if function is not None and _HARMLESS.search(function.name):
        return False
    if not _is_direct(draw):
        return True
    holder: ast.AST | None = draw
    while holder is not None and not isinstance(holder, ast.stmt):
        holder = parent_of(holder)
    if holder is None or isinstance(holder, ast.FunctionDef | ast.ClassDef):
        return True
    # `random.shuffle(file_names)` draws no name.
    around = _header(holder).replace(ast.unparse(draw), "")
    return not _HARMLESS.search(around) and not _COLOURS.search(ast.unparse(draw))


def _is_direct(draw: ast.Call) -> bool:
    """Whether a call gives what it draws, which may be for anything: not a loader or a layer."""
    name = last_name(draw.func)
    return name[:1].islower()


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
