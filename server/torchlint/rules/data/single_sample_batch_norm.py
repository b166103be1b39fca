from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.idioms.data.augmentation import whole_dataset
from torchlint.idioms.data.loader_use import Phase, called_function, stated_phase, trained_loaders, training_loops
from torchlint.idioms.data.loaders import LOADER, loaded_class, loader_argument, stated_number
from torchlint.idioms.modules.single_value_norms import single_value_norms
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_call
from torchlint.semantics.kinds import What
from torchlint.semantics.nodes import argument, enclosing_class, enclosing_function, has_unknown_arguments, nodes_within
from torchlint.semantics.scopes import last_name
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

#: A call of one of these stands in every file that there is something to say about.
_MENTIONED = (
    "BatchNorm1d BatchNorm2d BatchNorm3d DeepLabHead ASPP DeepLabV3 DeepLabV3Plus deeplabv3_resnet50 "
    "deeplabv3_resnet101 deeplabv3_mobilenet_v3_large"
).split()
#: Samples of the training sets of torchvision 0.28.
_SIZES = {
    "torchvision.datasets.MNIST": (60000, 10000),
    "torchvision.datasets.FashionMNIST": (60000, 10000),
    "torchvision.datasets.KMNIST": (60000, 10000),
    "torchvision.datasets.CIFAR10": (50000, 10000),
    "torchvision.datasets.CIFAR100": (50000, 10000),
}


class SingleSampleBatchNorm(Rule):
    """## What it does

    Reports a `DataLoader` without `drop_last=True` that a model is trained on which normalizes one value for each
    channel of a sample: with `BatchNorm1d` after a `Linear` layer, or with any batch norm after pooling all places
    (`AdaptiveAvgPool2d(1)`), as DeepLab does.

    ## Why is this bad?

    The last batch holds what is left over. If that is one sample, there is one value for each feature, whose variance
    is not defined: "Expected more than 1 value per channel when training", after an epoch of work. Whether it happens
    depends on the number of samples.

    ## Example

    ```python
    from torch import nn
    from torch.utils.data import DataLoader

    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1))
    loader = DataLoader(dataset, batch_size=32, shuffle=True)

    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
    ```

    ## Use instead

    ```python
    from torch import nn
    from torch.utils.data import DataLoader

    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1))
    loader = DataLoader(dataset, batch_size=32, shuffle=True, drop_last=True)

    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
    ```

    ## Exceptions

    Loaders that are only evaluated; batch samplers; sizes that are known and leave no single sample; a loop that looks
    at the size of the batch; a model that is not known from the file.

    ## References

    - [torch.nn.BatchNorm1d](https://docs.pytorch.org/docs/stable/generated/torch.nn.BatchNorm1d.html)
    - [torch.utils.data.DataLoader](https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader)
    """

    code = "TL513"
    name = "single-sample-batch-norm"
    level = Level.HINT
    fix = FixKind.UNSAFE
    summary = "A last batch of one sample raises in a batch norm over features."

    @on_call(LOADER)
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        given = loader_argument(call, "drop_last")
        if has_unknown_arguments(call) or (given is not None and semantics.literal(given) is not False):
            return
        if loader_argument(call, "batch_sampler") is not None or not any(
            semantics.module.mentions_call(name) for name in _MENTIONED
        ):
            return
        if call not in trained_loaders(semantics) or _leaves_no_single(call, semantics):
            return
        loops = training_loops(semantics, call)
        if any(_looks_at_size(function, semantics) for function in _bodies(loops, semantics)):
            return
        found = next(_norms_in(loops, semantics), None)
        if found is None:
            return
        shown = f"`{ast.unparse(found.func)}`"
        whose = f"{shown} of {_model(found)}" if "BatchNorm" in shown else f"the pooling branch of {shown}"
        message = f"If one sample is left for the last batch, {whose} raises."
        if given is None:
            fix = FixPlan("Add `drop_last=True`", "unsafe", lambda edit: edit.add_keyword(call, "drop_last", "True"))
        else:
            fix = FixPlan("Set `drop_last=True`", "unsafe", lambda edit: edit.replace(given, "True"))
        shared = isinstance(parent_of(call), ast.DictComp)  # by training and evaluation
        fixes = [fix] if (given is None or isinstance(given, ast.Constant)) and not shared else []
        yield self.found(call, message, related=[(found, "normalizes over the batch")], fixes=fixes)


def _bodies(loops: tuple[ast.For, ...], semantics: Semantics) -> Iterator[ast.AST]:
    """The loops, and the functions of this file that they call."""
    for loop in loops:
        yield loop
        for call in nodes_within(loop, ast.Call):
            function = called_function(semantics, call.func) if isinstance(call, ast.Call) else None
            if function is not None:
                yield function


def _norms_in(loops: tuple[ast.For, ...], semantics: Semantics) -> Iterator[ast.Call]:
    """The norms that need two samples in the models that loops call."""
    for body in _bodies(loops, semantics):
        for call in nodes_within(body, ast.Call):
            assert isinstance(call, ast.Call)
            kind = semantics.kind(call.func)
            if kind is not None and kind.what is What.MODULE:
                yield from single_value_norms(semantics, kind)


def _leaves_no_single(call: ast.Call, semantics: Semantics) -> bool:
    """Whether the number of samples and the batch size are known and no batch has one sample, or all of them have."""
    given = loader_argument(call, "batch_size")
    batch = stated_number(semantics, given) if given is not None else 1
    if batch == 1 or semantics.literal(given) is None:
        return True
    value = semantics.value_of(given)
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "len":
        return True
    size = _size(call, semantics)
    return size is not None and batch is not None and batch > 0 and size % batch != 1


def _size(call: ast.Call, semantics: Semantics) -> int | None:
    """The number of samples of a dataset, where a literal says it."""
    dataset = loader_argument(call, "dataset")
    node = loaded_class(semantics, call)
    if node is not None:
        method = semantics.find_method(node, "__len__")
        values = semantics.returned_values(method) if method is not None else ()
        size = semantics.literal(values[0]) if len(values) == 1 else None
        return size if type(size) is int else None
    made = whole_dataset(semantics, dataset)
    if made is None or made is not semantics.value_of(dataset):
        return None
    name = semantics.name(made.func)
    if name in _SIZES:
        phase = stated_phase(semantics, made)
        return None if phase is None else _SIZES[name][phase is Phase.EVALUATION]
    if name == "torch.utils.data.TensorDataset" and made.args:
        tensor = semantics.value_of(made.args[0])
        if isinstance(tensor, ast.Call) and semantics.name(tensor.func).startswith("torch.rand"):
            size = semantics.literal(argument(tensor, 0, "size"))
            return size if type(size) is int else None
    return None


def _looks_at_size(body: ast.AST, semantics: Semantics) -> bool:
    """Whether a loop compares the size of a batch with a small number (``if x.size(0) == 1: continue``)."""
    for node in nodes_within(body, ast.Compare):
        assert isinstance(node, ast.Compare)
        parts = [node.left, *node.comparators]
        if any(semantics.literal(part) in (1, 2) for part in parts if isinstance(part, ast.Constant)) and any(
            isinstance(inner, ast.Name | ast.Attribute) and last_name(inner) in ("size", "shape", "len", "batch_size")
            for part in parts
            for inner in ast.walk(part)
        ):
            return True
    return False


def _model(norm: ast.Call) -> str:
    function = enclosing_function(norm)
    holder = enclosing_class(function) if function is not None else None
    return f"`{holder.name}`" if holder is not None else "the model"
