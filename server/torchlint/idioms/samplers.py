"""Which ``DataLoader`` a loop goes over, and which ``DistributedSampler`` that one was given."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.idioms.construction import constructions
from torchlint.idioms.loaders import LOADER, loader_argument
from torchlint.semantics.scopes import Binding
from torchlint.semantics.semantics import Semantics, argument, element_of

DISTRIBUTED_SAMPLER = "torch.utils.data.distributed.DistributedSampler"
SAMPLERS = (DISTRIBUTED_SAMPLER, "torch.utils.data.DistributedSampler")
_BATCHES = ("torch.utils.data.BatchSampler", "torch.utils.data.sampler.BatchSampler")


def loaders_in(semantics: Semantics, expression: ast.expr | None) -> Iterator[ast.Call]:
    """The calls of ``DataLoader`` that made what a loop goes over (``loader``, ``enumerate(loader)``, ``tqdm(loader)``,
    ``zip(loader, ...)``)."""
    while isinstance(expression, ast.Call) and not semantics.is_named(expression.func, LOADER):
        if semantics.local_function(expression.func) is not None or not expression.args:
            break
        expression = expression.args[0]
    for source in _elements(semantics, expression):
        for call in constructions(semantics, source).calls:
            if semantics.is_named(call.func, LOADER):
                yield call


def distributed_samplers(semantics: Semantics, loader: ast.Call) -> Iterator[ast.Call]:
    """The calls of ``DistributedSampler`` that made the sampler of a ``DataLoader``, directly or in batches."""
    for name in ("sampler", "batch_sampler"):
        for source in _elements(semantics, loader_argument(loader, name)):
            for call in constructions(semantics, source).calls:
                inner = [call]
                if semantics.is_named(call.func, *_BATCHES):
                    inner = list(constructions(semantics, argument(call, 0, "sampler")).calls)
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
