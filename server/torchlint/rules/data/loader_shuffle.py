from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchlint.idioms.data.datasets import HUGGING_FACE, PARTS, built_datasets, phase_of_dataset
from torchlint.idioms.data.loader_arguments import Arguments, loader_arguments
from torchlint.idioms.data.loader_use import Phase, hook_phase, made_by, stated_phase, trained_loaders
from torchlint.idioms.data.loaders import LOADER, loaded_class, loader_argument
from torchlint.idioms.surroundings.test_code import is_in_test
from torchlint.regex import regex
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_call
from torchlint.semantics.classes import ClassView
from torchlint.semantics.kinds import What
from torchlint.semantics.nodes import argument, contains, has_unknown_arguments, nodes_within, targets_of
from torchlint.semantics.scopes import Binding, FunctionNode, last_name
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of
from torchlint.torch_api import is_dataset

_ITERABLE = "torch.utils.data.IterableDataset"
_SHUFFLES = regex(r"shuffle|permut")
_RANDOM_SAMPLES = regex(r"^repeat$|shuffle|permut|random|rand(n|int|range|perm)?$|choice|sample", re.IGNORECASE)
_DEEPEST = 3
#: Functions that make samples up, which have no order.
_MADE_UP = (
    "torch.rand",
    "torch.zeros",
    "torch.ones",
    "torch.Tensor",
    "torch.FloatTensor",
    "torch.empty",
    "torch.arange",
)


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
        known = loader_arguments(semantics, call)
        dataset = known.given.get("dataset") if known is not None else None
        if known is None or dataset is None or _decides_order(known, semantics):
            return
        if is_in_test(semantics, call) or semantics.module.mentions_call("make_private"):  # Opacus draws samples itself
            return
        shuffle = known.given.get("shuffle")
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
        if phase_of_dataset(semantics, dataset) is Phase.EVALUATION:
            return
        if any(_is_made_up(semantics, made) for made in built_datasets(semantics, dataset).calls):
            return
        why = f"`{ast.unparse(shuffle)}` here" if shuffle is not None else "no `shuffle=True`"
        shown = _shown(dataset)
        message = f"{shown} is trained on in the same order in every epoch: {why}."
        severity = Level.WARNING.severity if _is_told_to_train(semantics, dataset) else None
        if shuffle is None:
            fix = FixPlan("Add `shuffle=True`", "unsafe", lambda edit: edit.add_keyword(call, "shuffle", "True"))
        else:
            fix = FixPlan("Set `shuffle=True`", "unsafe", lambda edit: edit.replace(shuffle, "True"))
        fixes = [fix] if shuffle is None or contains(call, shuffle) else []  # a dict of options may be shared
        yield self.found(call, message, fixes=fixes, severity=severity)

    def _shuffled(
        self, call: ast.Call, dataset: ast.expr, shuffle: ast.expr | None, semantics: Semantics
    ) -> Iterator[Diagnosis]:
        stated = hook_phase(semantics, call) or phase_of_dataset(semantics, dataset)
        if stated is not Phase.EVALUATION or call in trained_loaders(semantics) or shuffle is None:
            return
        if _is_looked_at(call, semantics) or _orders_itself(call, dataset, semantics):
            return
        if hook_phase(semantics, call) is None and not _is_map_style(call, dataset, semantics):
            return
        fix = FixPlan("Set `shuffle=False`", "unsafe", lambda edit: edit.replace(shuffle, "False"))
        message = f"{_shown(dataset)} is for evaluation and shuffled: outputs come in another order each time."
        fixes = [fix] if isinstance(shuffle, ast.Constant) and contains(call, shuffle) else []
        yield self.found(shuffle if contains(call, shuffle) else call, message, fixes=fixes)


def _decides_order(known: Arguments, semantics: Semantics) -> bool:
    """Whether a sampler that may be there decides the order, or it is decided elsewhere."""
    if not known.possible.isdisjoint(("dataset", "shuffle", "sampler", "batch_sampler")):
        return True
    given = [known.given.get(name) for name in ("sampler", "batch_sampler")]
    return any(item is not None and semantics.literal(item) is not None for item in given)


def _is_told_to_train(semantics: Semantics, dataset: ast.expr) -> bool:
    """Whether each call that may have made a dataset says ``train=True`` or the like."""
    built = built_datasets(semantics, dataset)
    calls = built.calls if built.complete else (dataset,)
    return all(stated_phase(semantics, call) is Phase.TRAINING for call in calls)


def _is_map_style(call: ast.Call, dataset: ast.expr, semantics: Semantics) -> bool:
    """Whether a dataset is certainly one that is asked for samples by index."""
    node = loaded_class(semantics, call)
    if node is not None:
        return _is_map_style_class(semantics, node)
    kind = semantics.kind(dataset)
    if kind is not None and kind.what in (What.LIST, What.ARRAY, What.TENSOR):
        return True
    built = built_datasets(semantics, dataset)
    return built.complete and all(_makes_map_style(semantics, made) for made in built.calls)


def _is_map_style_class(semantics: Semantics, node: ast.ClassDef) -> bool:
    bases = semantics.ancestors(node)
    if _ITERABLE in bases or semantics.find_method(node, "__iter__") is not None:
        return False
    return semantics.find_method(node, "__getitem__") is not None or any(map(_is_indexed, bases))


def _makes_map_style(semantics: Semantics, made: ast.Call) -> bool:
    local = semantics.local_class(made.func)
    if local is not None:
        return _is_map_style_class(semantics, local)
    name = semantics.name(made.func)
    if name in HUGGING_FACE:
        return argument(made, None, "streaming") is None and not has_unknown_arguments(made)
    return name in PARTS or _is_indexed(name)


def _is_indexed(name: str) -> bool:
    """Whether a class of torch or torchvision is a map-style dataset."""
    known = is_dataset(name) and name != "torch.utils.data.Dataset"
    return known and not name.endswith(("IterableDataset", "ChainDataset", "Kinetics"))


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
    child: ast.AST = call
    holder = parent_of(call)
    while holder is not None and not isinstance(holder, ast.FunctionDef | ast.AsyncFunctionDef):
        if isinstance(holder, ast.For | ast.While) and child is not getattr(holder, "iter", None):
            return True
        child, holder = holder, parent_of(holder)
    return False


def _orders_itself(call: ast.Call, dataset: ast.expr, semantics: Semantics) -> bool:
    """Whether a dataset chooses samples at random, or was shuffled where it was made."""
    node = loaded_class(semantics, call)
    if node is not None:
        view = ClassView(semantics, node)
        return any(_RANDOM_SAMPLES.search(name) for method in view.methods for name in _called(method))
    built = built_datasets(semantics, dataset).calls
    made = made_by(semantics, dataset)
    return any(
        isinstance(part, ast.Attribute | ast.Name) and _SHUFFLES.search(last_name(part))
        for call in (*built, *((made,) if made is not None else ()))
        for part in ast.walk(call)
    )


def _is_made_up(semantics: Semantics, made: ast.Call) -> bool:
    if semantics.is_named(made.func, "torchvision.datasets.FakeData"):
        return True
    if not made.args or not semantics.is_named(made.func, "torch.utils.data.TensorDataset"):
        return False
    samples = semantics.value_of(made.args[0])
    calls = (part for part in ast.walk(samples) if isinstance(part, ast.Call)) if samples is not None else ()
    return any(semantics.name(call.func).startswith(_MADE_UP) for call in calls)


def _called(method: FunctionNode) -> Iterator[str]:
    for call in nodes_within(method, ast.Call):
        assert isinstance(call, ast.Call)
        yield last_name(call.func)


def _carries_state(semantics: Semantics) -> bool:
    """Whether a training loop of the file hands a state from batch to batch (``output, hidden = model(x, hidden)``)."""
    for step in semantics.module.calls_of("backward"):
        holder = parent_of(step)
        while holder is not None and not isinstance(holder, ast.For):
            holder = parent_of(holder)
        for node in ast.walk(holder) if holder is not None else ():
            if not isinstance(node, ast.Assign | ast.AnnAssign) or not isinstance(node.value, ast.Call):
                continue
            bound = {part.id for target in targets_of(node) for part in ast.walk(target) if isinstance(part, ast.Name)}
            given = [item for item in node.value.args if isinstance(item, ast.Name) and item.id in bound]
            if len(bound) > 1 and any(_comes_from(semantics, item, node, 0) for item in given):
                return True
    return False


def _comes_from(semantics: Semantics, name: ast.Name, statement: ast.stmt, depth: int) -> bool:
    """Whether a name holds what a statement bound, in the iteration before, or something made of it."""
    for definition in semantics.definitions(name):
        if definition.node is statement:
            return True
        value = definition.value if depth < _DEEPEST and definition.kind is Binding.ASSIGNMENT else None
        for part in ast.walk(value) if value is not None else ():
            if isinstance(part, ast.Name) and _comes_from(semantics, part, statement, depth + 1):
                return True
    return False


def _is_looked_at(call: ast.Call, semantics: Semantics) -> bool:
    """Whether single batches are taken out of the loader, to be shown or to sample from."""
    statement = parent_of(call)
    targets = targets_of(statement)
    if len(targets) != 1:
        return isinstance(statement, ast.Call)
    target = ast.unparse(targets[0])
    return any(
        argument(made, 0, None) is not None and ast.unparse(made.args[0]) == target
        for name in ("iter", "cycle", "next", "infinite", "inf_train_gen", "make_grid")
        for made in semantics.module.calls_of(name)
    )


def _shown(dataset: ast.expr) -> str:
    text = ast.unparse(dataset)
    return f"`{text}`" if len(text) <= 40 else "This dataset"
