from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchlint.idioms.data.augmentation import augmented_dataset, random_transform, whole_dataset
from torchlint.idioms.data.loader_use import Phase, evaluated_loaders, hook_phase, stated_phase, trained_loaders
from torchlint.idioms.data.loaders import LOADER, loader_argument
from torchlint.idioms.surroundings.stated import is_stated
from torchlint.regex import regex
from torchlint.rules.base import Diagnosis, Level, Rule, on_call, on_keyword
from torchlint.semantics.nodes import argument, enclosing_function
from torchlint.semantics.scopes import last_name
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

_EVALUATION = regex(
    r"^(val|valid|validation|test|testing|dev|eval|evaluation)(_?(set|data|dataset|loader|ds|dl|dataloader))?$"
)
_ON_PURPOSE = regex(
    r"(?<![a-z])tta(?![a-z])|test.?time|augment\w* (the )?(test|val)|on purpose|robustness", re.IGNORECASE
)
#: Where the datasets of torchvision 0.28 take their transform by position.
_TRANSFORM_BY_POSITION = {
    f"torchvision.datasets.{name}": position
    for position, names in (
        (1, "ImageFolder EuroSAT"),
        (2, "CIFAR10 CIFAR100 MNIST FashionMNIST KMNIST SVHN Flowers102 Food101 GTSRB"),
        (3, "DatasetFolder STL10"),
    )
    for name in names.split()
}


class AugmentedValidation(Rule):
    """## What it does

    Reports torchvision transforms that draw at random (`RandomResizedCrop`, `RandomHorizontalFlip`, `ColorJitter`, ...)
    where they reach validation or test data: given to a dataset that is for evaluation, or to one that is split into
    training and validation parts.

    ## Why is this bad?

    The score is measured on other images in each run and each epoch, and on harder ones than the model will meet.
    Epochs cannot be compared, so early stopping and the choice of the best model follow the noise.

    ## Example

    ```python
    from torch.utils.data import random_split
    from torchvision import datasets, transforms

    augment = transforms.Compose([transforms.RandomResizedCrop(224), transforms.ToTensor()])
    full = datasets.ImageFolder("images", transform=augment)
    train_set, val_set = random_split(full, [0.8, 0.2])
    ```

    ## Use instead

    ```python
    import torch
    from torch.utils.data import Subset
    from torchvision import datasets, transforms

    augment = transforms.Compose([transforms.RandomResizedCrop(224), transforms.ToTensor()])
    plain = transforms.Compose([transforms.Resize(256), transforms.CenterCrop(224), transforms.ToTensor()])
    augmented = datasets.ImageFolder("images", transform=augment)
    order = torch.randperm(len(augmented)).tolist()
    train_set = Subset(augmented, order[1000:])
    val_set = Subset(datasets.ImageFolder("images", transform=plain), order[:1000])
    ```

    ## Exceptions

    Augmentation at test time that a comment or a name announces; transforms that are set afterwards
    (`val_set.dataset.transform = ...`); pipelines that are not known from the file; tests. What is for evaluation is
    told by literals (`train=False`), by names (`val_set`) and by loops that evaluate.

    ## References

    - [Transforms](https://docs.pytorch.org/vision/stable/transforms.html)
    """

    code = "TL511"
    name = "augmented-validation"
    level = Level.WARNING
    summary = "Validation images are changed at random: scores are noisy and cannot be compared."

    @on_keyword(lambda name: name in ("transform", "transforms"))
    def check_dataset(self, keyword: ast.keyword, unit: Unit) -> Iterator[Diagnosis]:
        call = parent_of(keyword)
        if isinstance(call, ast.Call):
            yield from self._check_made(call, keyword.value, unit)

    @on_call(*_TRANSFORM_BY_POSITION)
    def check_position(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        given = _transform_by_position(call, unit.semantics)
        if given is not None:
            yield from self._check_made(call, given, unit)

    def _check_made(self, call: ast.Call, transform: ast.expr, unit: Unit) -> Iterator[Diagnosis]:
        if not _is_for_evaluation(call, unit.semantics):
            return
        drawn = random_transform(unit.semantics, transform)
        if drawn is None or _is_meant(call, unit):
            return
        shown = _shown(call)
        message = f"{_name(drawn)} changes the samples of {shown}, which are for evaluation, at random each time."
        yield self.found(transform, message, related=[(drawn, "draws at random")])

    @on_call("torchvision.transforms.Compose", "torchvision.transforms.v2.Compose")
    def check_table(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        key = _key_of(call)
        if key is None or not _EVALUATION.match(key):
            return
        drawn = random_transform(unit.semantics, call)
        if drawn is None or _is_meant(call, unit) or not _has_training_key(call):
            return
        message = f"{_name(drawn)} changes the samples of `{key}`, which are for evaluation, at random each time."
        yield self.found(drawn, message)

    @on_call("torch.utils.data.random_split", "torch.utils.data.Subset")
    def check_split(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        names = [name for name in _bound_names(call) if _is_evaluation_name(name)]
        if not names:
            return
        found = augmented_dataset(semantics, argument(call, 0, "dataset"))
        if found is None or _is_meant(call, unit):
            return
        made, drawn = found
        message = f"`{names[0]}` is a part of a dataset that {_name(drawn)} changes at random: its samples vary."
        yield self.found(call, message, related=[(made, "the whole dataset"), (drawn, "draws at random")])

    @on_call(LOADER)
    def check_loader(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        dataset = loader_argument(call, "dataset")
        if dataset is None or not _evaluates(call, semantics):
            return
        found = augmented_dataset(semantics, dataset)
        if found is None or _is_meant(call, unit) or _is_meant(found[0], unit):
            return
        made, drawn = found
        if _is_reported_where_made(dataset, made, semantics):
            return
        message = f"This loader is for evaluation, and {_name(drawn)} changes its samples at random each time."
        yield self.found(dataset, message, related=[(made, "made with random transforms"), (drawn, "draws at random")])


def _evaluates(call: ast.Call, semantics: Semantics) -> bool:
    if call in trained_loaders(semantics):
        return False
    if any(_is_evaluation_name(name) for name in _bound_names(call)):
        return True
    if hook_phase(semantics, call) is Phase.EVALUATION:
        return True
    # A loop that evaluates may look at the training data: another loader of the dataset has to be trained on.
    return (
        call in evaluated_loaders(semantics)
        and any(other is not call and _same_dataset(semantics, call, other) for other in trained_loaders(semantics))
        and loader_argument(call, "sampler") is not None
    )


def _same_dataset(semantics: Semantics, one: ast.Call, other: ast.Call) -> bool:
    first = whole_dataset(semantics, loader_argument(one, "dataset"))
    return first is not None and first is whole_dataset(semantics, loader_argument(other, "dataset"))


def _is_reported_where_made(dataset: ast.expr, made: ast.Call, semantics: Semantics) -> bool:
    """Whether the dataset, or the part of it, already has a finding where it is made."""
    named = any(item.arg in ("transform", "transforms") for item in made.keywords)
    if _is_for_evaluation(made, semantics) and (named or _transform_by_position(made, semantics) is not None):
        return True
    if not isinstance(dataset, ast.Name | ast.Attribute):
        return False
    name = last_name(dataset)
    return _is_evaluation_name(name) and name not in _bound_names(made)


def _transform_by_position(call: ast.Call, semantics: Semantics) -> ast.expr | None:
    """The transform that a dataset of torchvision is given without its name."""
    position = _TRANSFORM_BY_POSITION.get(semantics.name(call.func))
    return argument(call, position, None) if position is not None else None


def _is_for_evaluation(call: ast.Call, semantics: Semantics) -> bool:
    """Whether a dataset that is made here is for evaluation, by a literal or by what it is called."""
    stated = stated_phase(semantics, call)
    if stated is not None:
        return stated is Phase.EVALUATION
    return any(_is_evaluation_name(name) for name in _bound_names(call))


def _bound_names(call: ast.Call) -> tuple[str, ...]:
    """The names and attributes that a value is assigned to as it is, or in parts."""
    statement = parent_of(call)
    if isinstance(statement, ast.Tuple) and isinstance(parent_of(statement), ast.Assign):
        return _bound_beside(call, statement)
    if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is not call:
        return ()
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    parts = [part for target in targets for part in (target.elts if isinstance(target, ast.Tuple) else [target])]
    return tuple(last_name(part) for part in parts)


def _bound_beside(call: ast.Call, values: ast.Tuple) -> tuple[str, ...]:
    """The name of a value in ``train, val = Subset(...), Subset(...)``."""
    match parent_of(values):
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=value) if value is values:
            return (last_name(targets[values.elts.index(call)]),) if len(targets) == len(values.elts) else ()
        case _:
            return ()


def _is_evaluation_name(name: str) -> bool:
    words = [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]
    return "train" not in words and any(_EVALUATION.match(word) for word in words)


def _key_of(call: ast.Call) -> str | None:
    """The key of a literal dict under which a value stands."""
    holder = parent_of(call)
    if not isinstance(holder, ast.Dict) or call not in holder.values:
        return None
    key = holder.keys[holder.values.index(call)]
    return key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else None


def _has_training_key(call: ast.Call) -> bool:
    holder = parent_of(call)
    assert isinstance(holder, ast.Dict)
    keys = [key.value for key in holder.keys if isinstance(key, ast.Constant)]
    return any(isinstance(key, str) and key.startswith("train") for key in keys)


def _is_meant(call: ast.Call, unit: Unit) -> bool:
    """Whether augmentation at test time is announced, transforms are set later, or the code is a test."""
    function = enclosing_function(call)
    if function is not None and function.name.startswith("test_"):
        return True
    if is_stated(call, _ON_PURPOSE) or any(_ON_PURPOSE.search(name) for name in _bound_names(call)):
        return True
    return any(
        node.attr in ("transform", "transforms") and isinstance(node.ctx, ast.Store) and not _is_of_self(node, unit)
        for node in unit.all(ast.Attribute)
    )


def _is_of_self(node: ast.Attribute, unit: Unit) -> bool:
    return unit.semantics.class_of_self(node.value) is not None


def _name(drawn: ast.Call) -> str:
    return f"`{getattr(drawn.func, 'attr', getattr(drawn.func, 'id', ''))}`"


def _shown(call: ast.Call) -> str:
    names = [name for name in _bound_names(call) if name]
    return f"`{names[0]}`" if names else "this dataset"
