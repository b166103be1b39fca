from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchlint.idioms.data.loader_use import Phase, hook_phase, made_by, stated_phase, trained_loaders
from torchlint.idioms.data.loaders import LOADER, loaded_class, loader_argument
from torchlint.idioms.surroundings.test_code import is_in_test
from torchlint.regex import regex
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_call
from torchlint.semantics.classes import ClassView
from torchlint.semantics.kinds import What
from torchlint.semantics.nodes import argument, has_unknown_arguments, nodes_within
from torchlint.semantics.scopes import FunctionNode
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of
from torchlint.torch_api import is_dataset

_ITERABLE = "torch.utils.data.IterableDataset"
_RANDOM_SAMPLES = regex(r"^repeat$|shuffle|permut|random|rand(n|int|range|perm)?$|choice|sample", re.IGNORECASE)
#: Functions that make samples up, which have no order.
_MADE_UP = ("torch.rand", "torch.zeros", "torch.ones", "torch.Tensor", "torch.FloatTensor", "torch.empty")


class LoaderShuffle(Rule):
    """## What it does

    Reports a `DataLoader` that is trained on and does not shuffle (a warning where the dataset is made with
    `train=True`), and a `DataLoader` over an evaluation set (`train=False`, `split="test"`, `val_dataloader` of
    Lightning) with `shuffle=True`.

    ## Why is this bad?

    Without shuffling every epoch shows the same batches in the same order. Datasets are often stored class by class, so
    each step sees one class only and the model forgets the others. Shuffling an evaluation changes no average, but
    its outputs can no longer be matched with the samples or compared between runs.

    ## Example

    ```python
    from torch.utils.data import DataLoader
    from torchvision.datasets import CIFAR10

    train_loader = DataLoader(CIFAR10("data", train=True), batch_size=64)

    for images, labels in train_loader:
        optimizer.zero_grad()
        criterion(model(images), labels).backward()
        optimizer.step()
    ```

    ## Use instead

    ```python
    from torch.utils.data import DataLoader
    from torchvision.datasets import CIFAR10

    train_loader = DataLoader(CIFAR10("data", train=True), batch_size=64, shuffle=True)

    for images, labels in train_loader:
        optimizer.zero_grad()
        criterion(model(images), labels).backward()
        optimizer.step()
    ```

    ## Exceptions

    A sampler or batch sampler; a value of `shuffle` that is not known; streams, and datasets that are not known to be
    map-style; samples that are made up, or that a dataset picks or shuffles itself; one batch that holds everything; a
    state that is carried from batch to batch; a loader that is made again in a loop; a shuffled evaluation loader of
    which one batch is looked at (`next(iter(loader))`), or that is trained on; Opacus, which draws batches itself;
    tests.

    ## References

    - [torch.utils.data.DataLoader](https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader)
    """

    code = "TL503"
    name = "loader-shuffle"
    level = Level.HINT
    fix = FixKind.UNSAFE
    summary = "Training data want a new order in each epoch, evaluation data the same."

    @on_call(LOADER)
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        dataset = loader_argument(call, "dataset")
        if dataset is None or has_unknown_arguments(call) or _decides_order(call, semantics):
            return
        if is_in_test(semantics, call) or semantics.module.mentions_call("make_private"):  # Opacus draws samples itself
            return
        shuffle = loader_argument(call, "shuffle")
        shuffles = semantics.literal(shuffle) if shuffle is not None else False
        if shuffles is True:
            yield from self._shuffled(call, dataset, shuffle, semantics)
        elif shuffles is False or shuffles is None:
            yield from self._unshuffled(call, dataset, shuffle, semantics)

    def _unshuffled(
        self, call: ast.Call, dataset: ast.expr, shuffle: ast.expr | None, semantics: Semantics
    ) -> Iterator[Diagnosis]:
        loops = trained_loaders(semantics)
        if call not in loops and hook_phase(semantics, call) is not Phase.TRAINING:
            return
        if not _is_map_style(call, dataset, semantics) or _is_whole_batch(call, dataset, semantics):
            return
        if _is_made_in_loop(call) or _orders_itself(call, dataset, semantics) or _carries_state(semantics):
            return
        stated = stated_phase(semantics, dataset)
        if stated is Phase.EVALUATION:
            return
        why = f"`{ast.unparse(shuffle)}` here" if shuffle is not None else "no `shuffle=True`"
        shown = _shown(dataset)
        message = f"{shown} is trained on in the same order in every epoch: {why}."
        severity = Level.WARNING.severity if stated is Phase.TRAINING else None
        if shuffle is None:
            fix = FixPlan("Add `shuffle=True`", "unsafe", lambda edit: edit.add_keyword(call, "shuffle", "True"))
        else:
            fix = FixPlan("Set `shuffle=True`", "unsafe", lambda edit: edit.replace(shuffle, "True"))
        yield self.found(call, message, fixes=[fix], severity=severity)

    def _shuffled(
        self, call: ast.Call, dataset: ast.expr, shuffle: ast.expr | None, semantics: Semantics
    ) -> Iterator[Diagnosis]:
        stated = stated_phase(semantics, dataset) or hook_phase(semantics, call)
        if stated is not Phase.EVALUATION or call in trained_loaders(semantics) or shuffle is None:
            return
        if _is_looked_at(call, semantics) or _orders_itself(call, dataset, semantics):
            return
        if hook_phase(semantics, call) is None and not _is_map_style(call, dataset, semantics):
            return
        fix = FixPlan("Set `shuffle=False`", "unsafe", lambda edit: edit.replace(shuffle, "False"))
        message = f"{_shown(dataset)} is for evaluation and shuffled: outputs come in another order each time."
        fixes = [fix] if isinstance(shuffle, ast.Constant) else []
        yield self.found(shuffle, message, fixes=fixes)


def _decides_order(call: ast.Call, semantics: Semantics) -> bool:
    """Whether a sampler that may be there decides the order."""
    given = [loader_argument(call, name) for name in ("sampler", "batch_sampler")]
    return any(item is not None and semantics.literal(item) is not None for item in given)


def _is_map_style(call: ast.Call, dataset: ast.expr, semantics: Semantics) -> bool:
    """Whether a dataset is certainly one that is asked for samples by index."""
    node = loaded_class(semantics, call)
    if node is not None:
        bases = semantics.ancestors(node)
        if _ITERABLE in bases or semantics.find_method(node, "__iter__") is not None:
            return False
        return semantics.find_method(node, "__getitem__") is not None
    kind = semantics.kind(dataset)
    if kind is not None and kind.what in (What.LIST, What.ARRAY, What.TENSOR):
        return True
    made = made_by(semantics, _base(dataset, semantics))
    if made is None:
        return False
    name = semantics.name(made.func)
    if name == "torch.utils.data.random_split":
        return True
    return is_dataset(name) and not name.endswith(("IterableDataset", "ChainDataset", "Kinetics"))


def _base(dataset: ast.expr, semantics: Semantics) -> ast.expr:
    """The call behind an unpacked part: ``train, valid = random_split(...)``."""
    if isinstance(dataset, ast.Name):
        definitions = semantics.definitions(dataset)
        if len(definitions) == 1 and definitions[0].path and definitions[0].value is not None:
            return definitions[0].value
    return dataset


def _is_whole_batch(call: ast.Call, dataset: ast.expr, semantics: Semantics) -> bool:
    """Whether one batch holds everything (``batch_size=len(dataset)``), or batches are made elsewhere (``None``)."""
    size = loader_argument(call, "batch_size")
    if size is None:
        return False
    value = semantics.value_of(size)
    if semantics.literal(size) is None:
        return True
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "len"


def _is_made_in_loop(call: ast.Call) -> bool:
    holder = parent_of(call)
    while holder is not None and not isinstance(holder, ast.FunctionDef | ast.AsyncFunctionDef):
        if isinstance(holder, ast.For | ast.While):
            return True
        holder = parent_of(holder)
    return False


def _orders_itself(call: ast.Call, dataset: ast.expr, semantics: Semantics) -> bool:
    """Whether a dataset chooses samples at random, or was shuffled where it was made."""
    node = loaded_class(semantics, call)
    if node is not None:
        view = ClassView(semantics, node)
        return any(_RANDOM_SAMPLES.search(name) for method in view.methods for name in _called(method))
    made = made_by(semantics, dataset)
    if made is not None and made.args and semantics.is_named(made.func, "torch.utils.data.TensorDataset"):
        samples = semantics.value_of(made.args[0])
        if isinstance(samples, ast.Call) and semantics.name(samples.func).startswith(_MADE_UP):
            return True
    return made is not None and any(
        isinstance(part, ast.Attribute | ast.Name)
        and re.search(r"shuffle|permut", getattr(part, "attr", getattr(part, "id", "")))
        for part in ast.walk(made)
    )


def _called(method: FunctionNode) -> Iterator[str]:
    for call in nodes_within(method, ast.Call):
        assert isinstance(call, ast.Call)
        yield getattr(call.func, "attr", getattr(call.func, "id", ""))


def _carries_state(semantics: Semantics) -> bool:
    """Whether a training loop of the file hands a state from batch to batch (``output, hidden = model(x, hidden)``)."""
    for step in semantics.module.calls_of("backward"):
        holder = parent_of(step)
        while holder is not None and not isinstance(holder, ast.For):
            holder = parent_of(holder)
        for node in ast.walk(holder) if holder is not None else ():
            if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
                continue
            bound = {part.id for target in node.targets for part in ast.walk(target) if isinstance(part, ast.Name)}
            given = {item.id for item in node.value.args if isinstance(item, ast.Name)}
            if len(bound) > 1 and bound & given:
                return True
    return False


def _is_looked_at(call: ast.Call, semantics: Semantics) -> bool:
    """Whether single batches are taken out of the loader, to be shown or to sample from."""
    statement = parent_of(call)
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return isinstance(statement, ast.Call)
    target = ast.unparse(statement.targets[0])
    return any(
        argument(made, 0, None) is not None and ast.unparse(made.args[0]) == target
        for name in ("iter", "cycle", "next", "infinite", "inf_train_gen", "make_grid")
        for made in semantics.module.calls_of(name)
    )


def _shown(dataset: ast.expr) -> str:
    text = ast.unparse(dataset)
    return f"`{text}`" if len(text) <= 40 else "This dataset"
