"""Which torchvision transforms draw at random, and which datasets are made with them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.idioms.data.loader_use import made_by
from torchlint.idioms.data.pipelines import steps_of
from torchlint.semantics.literals import UNKNOWN
from torchlint.semantics.nodes import argument
from torchlint.semantics.scopes import Binding
from torchlint.semantics.semantics import Semantics

_MODULES = ("torchvision.transforms.v2.", "torchvision.transforms.")
#: Besides those that begin with "Random" (torchvision 0.28).
_RANDOM = frozenset(
    "ColorJitter AutoAugment RandAugment TrivialAugmentWide AugMix ElasticTransform MixUp CutMix ScaleJitter".split()
)
#: Datasets that are, or choose from, the dataset that they are given first.
_PARTS = ("torch.utils.data.Subset", "torch.utils.data.random_split")
_DEEPEST = 5


def random_transform(semantics: Semantics, pipeline: ast.expr | None, depth: int = 0) -> ast.Call | None:
    """The first transform of a pipeline that draws at random; None if there is none, or the pipeline is not known.

    Of a name with several definitions each has to draw at random.
    """
    if depth > _DEEPEST:
        return None
    several = alternatives(semantics, pipeline)
    if several:
        found = [random_transform(semantics, value, depth + 1) for value in several]
        return found[0] if all(found) else None
    made = semantics.value_of(pipeline) if isinstance(pipeline, ast.Name) else made_by(semantics, pipeline)
    if not isinstance(made, ast.Call):
        return None
    name = next((name for name in _names(semantics, made)), "")
    if name == "Compose":
        return next(_random_steps(semantics, argument(made, 0, "transforms"), depth + 1), None)
    if (not name.startswith("Random") and name not in _RANDOM) or _draws_one_value(semantics, made):
        return None
    chance = semantics.literal(argument(made, None, "p"))
    return None if chance is not UNKNOWN and chance == 0 and argument(made, None, "p") is not None else made


def _draws_one_value(semantics: Semantics, made: ast.Call) -> bool:
    """Whether a crop can only be one: ``RandomResizedCrop(512, scale=(1.0, 1.0), ratio=(1.0, 1.0))``."""
    ranges = [semantics.literal(argument(made, None, name)) for name in ("scale", "ratio")]
    return all(isinstance(item, tuple | list) and len(set(item)) == 1 for item in ranges)


def alternatives(semantics: Semantics, expression: ast.expr | None) -> tuple[ast.expr, ...]:
    """The values of a name that is assigned on several paths; empty for anything else."""
    definitions = semantics.definitions(expression) if isinstance(expression, ast.Name) else ()
    values = [item.value for item in definitions if item.kind is Binding.ASSIGNMENT and not item.path and item.value]
    return tuple(values) if len(values) == len(definitions) > 1 else ()


def _names(semantics: Semantics, made: ast.Call) -> Iterator[str]:
    name = semantics.name(made.func)
    for module in _MODULES:
        if name.startswith(module):
            yield name[len(module) :].rpartition(".")[2]
            return


def _random_steps(semantics: Semantics, steps: ast.expr | None, depth: int) -> Iterator[ast.Call]:
    for element in steps_of(semantics, steps):
        found = random_transform(semantics, element, depth) if element is not None else None
        if found is not None:
            yield found


def random_transform_of(semantics: Semantics, dataset: ast.Call, depth: int = 0) -> ast.Call | None:
    """The random transform that a dataset is made with, by position or as ``transform=``; of several that are put
    together (``ConcatDataset``), each has to be made with one."""
    if semantics.is_named(dataset.func, "torch.utils.data.ConcatDataset") and depth < _DEEPEST:
        match argument(dataset, 0, "datasets"):
            case ast.List(elts=elements) | ast.Tuple(elts=elements) if elements:
                parts = [whole_dataset(semantics, element) for element in elements]
                drawn = [random_transform_of(semantics, part, depth + 1) if part else None for part in parts]
                return drawn[0] if all(drawn) else None
    given = [*dataset.args[1:], *(item.value for item in dataset.keywords if item.arg in ("transform", "transforms"))]
    found = (random_transform(semantics, value) for value in given if not isinstance(value, ast.Starred))
    return next((item for item in found if item is not None), None)


def augmented_dataset(semantics: Semantics, dataset: ast.expr | None) -> tuple[ast.Call, ast.Call] | None:
    """The call that made the dataset behind a value, or behind the part of it that a value is, and the random transform
    that it is made with; None unless each dataset that may be meant has one."""
    candidates = [whole_dataset(semantics, value) for value in alternatives(semantics, dataset) or (dataset,)]
    found = [(made, random_transform_of(semantics, made)) for made in candidates if made is not None]
    known = [(made, drawn) for made, drawn in found if drawn is not None]
    return known[0] if known and len(known) == len(candidates) else None


def whole_dataset(semantics: Semantics, dataset: ast.expr | None, depth: int = 0) -> ast.Call | None:
    """The call that made the dataset of which a value is a part (``Subset(full, ...)``), or the value itself."""
    made = made_by(semantics, dataset)
    if made is None and isinstance(dataset, ast.Name):
        definitions = semantics.definitions(dataset)
        value = definitions[0].value if len(definitions) == 1 else None
        made = value if isinstance(value, ast.Call) and semantics.is_named(value.func, *_PARTS) else None
    if made is not None and semantics.is_named(made.func, *_PARTS) and depth < _DEEPEST:
        return whole_dataset(semantics, argument(made, 0, "dataset"), depth + 1)
    return made
