"""Which ``DataLoader`` a loop goes over, and which ``DistributedSampler`` that one was given."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.idioms.data.loaders import LOADER, loader_argument
from torchlint.idioms.surroundings.called_code import function_run_by
from torchlint.idioms.training.construction import constructions
from torchlint.semantics.nodes import argument, element_of
from torchlint.semantics.scopes import Binding
from torchlint.semantics.semantics import Semantics

DISTRIBUTED_SAMPLER = "torch.utils.data.distributed.DistributedSampler"
SAMPLERS = (DISTRIBUTED_SAMPLER, "torch.utils.data.DistributedSampler")
_BUILTINS = frozenset(("enumerate", "zip", "iter"))
_MOST_WRAPPERS = 5
_BATCHES = ("torch.utils.data.BatchSampler", "torch.utils.data.sampler.BatchSampler")


def loaders_in(semantics: Semantics, expression: ast.expr | None) -> Iterator[ast.Call]:
    """The calls of ``DataLoader`` that made what a loop goes over (``loader``, ``enumerate(loader)``, ``tqdm(loader)``,
    ``zip(loader, ...)``)."""
    for _ in range(_MOST_WRAPPERS):
        value = semantics.value_of(expression)
        if not isinstance(value, ast.Call) or semantics.is_named(value.func, LOADER) or not value.args:
            break
        if semantics.local_function(value.func) is not None or not _is_wrapper(value, semantics):
            break
        expression = value.args[0]
    for source in _elements(semantics, expression):
        for call in _makers(semantics, source):
            if semantics.is_named(call.func, LOADER):
                yield call


def _is_wrapper(call: ast.Call, semantics: Semantics) -> bool:
    """Whether a call gives the elements of its first argument (``tqdm(loader)``), or them and others."""
    if isinstance(call.func, ast.Name) and call.func.id in _BUILTINS and not semantics.definitions(call.func):
        return True
    name = semantics.name(call.func)
    return name.startswith(("tqdm.", "rich.progress.", "itertools."))


def distributed_samplers(semantics: Semantics, loader: ast.Call) -> Iterator[ast.Call]:
    """The calls of ``DistributedSampler`` that made the sampler of a ``DataLoader``, directly or in batches."""
    for name in ("sampler", "batch_sampler"):
        for source in _elements(semantics, loader_argument(loader, name)):
            for call in _makers(semantics, source):
                inner = [call]
                if semantics.is_named(call.func, *_BATCHES):
                    inner = list(_makers(semantics, argument(call, 0, "sampler")))
                yield from (item for item in inner if semantics.is_named(item.func, *SAMPLERS))


def _elements(semantics: Semantics, expression: ast.expr | None) -> Iterator[ast.expr]:
    """An expression, or the elements of the tuples that it is unpacked from (``train, test = make_loaders()``)."""
    if expression is None:
        return
    unpacked = [
        (item.value, item.path)
        for item in (semantics.definitions(expression) if isinstance(expression, ast.Name) else ())
        if item.kind is Binding.ASSIGNMENT and item.path and isinstance(item.value, ast.Call)
    ]
    if not unpacked:
        yield expression
    for call, path in unpacked:
        function = semantics.local_function(call.func) if isinstance(call, ast.Call) else None
        for value in semantics.returned_values(function) if function is not None else ():
            element = element_of(value, path)
            if element is not None:
                yield element


def _makers(semantics: Semantics, expression: ast.expr | None, depth: int = 0) -> Iterator[ast.Call]:
    """The calls that make an object, methods of this file followed (``self.train_loader()``)."""
    for call in constructions(semantics, expression).calls:
        method = function_run_by(call.func, semantics) if isinstance(call.func, ast.Attribute) else None
        if method is None or depth > 2:
            yield call
            continue
        for value in semantics.returned_values(method):
            yield from _makers(semantics, value, depth + 1)
