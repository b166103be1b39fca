from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchlint.idioms.data.augmentation import whole_dataset
from torchlint.idioms.data.loaders import LOADER, loaded_class, loader_argument
from torchlint.idioms.surroundings.test_code import is_in_test
from torchlint.idioms.values.cuda import moves_to_cuda
from torchlint.rules.base import Diagnosis, Level, Rule, on_call
from torchlint.semantics.classes import ClassView
from torchlint.semantics.nodes import has_unknown_arguments, nodes_within
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.torch_api import is_dataset

#: Calls that read a file, decode it, or work on what was read.
_READING = re.compile(
    r"^(open|imread|imdecode|load|loads|read|readlines|read_\w+|load_\w+|get_image|fromarray|decode_\w+|loader"
    r"|transform|transforms|_?\w+_transforms?|augment\w*|tokenize|tokenizer|preprocess|resize|cvtColor)$"
)
#: Datasets that make their samples.
_MADE_UP = frozenset(("torchvision.datasets.FakeData",))


class DataloaderWorkers(Rule):
    """## What it does

    Reports a `DataLoader` without `num_workers` whose dataset reads, decodes or transforms each sample when it is asked
    for it.

    ## Why is this bad?

    By default the training process itself loads the samples, and the GPU waits meanwhile. Worker processes load the
    next batches while the model computes.

    ## Example

    ```python
    from PIL import Image
    from torch.utils.data import DataLoader, Dataset


    class Images(Dataset):
        def __len__(self):
            return len(self.paths)

        def __getitem__(self, index):
            return self.transform(Image.open(self.paths[index]))


    loader = DataLoader(Images(), batch_size=32)
    ```

    ## Use instead

    ```python by-hand
    from PIL import Image
    from torch.utils.data import DataLoader, Dataset


    class Images(Dataset):
        def __len__(self):
            return len(self.paths)

        def __getitem__(self, index):
            return self.transform(Image.open(self.paths[index]))


    loader = DataLoader(Images(), batch_size=32, num_workers=4)
    ```

    How many workers pay off depends on the machine; begin with the number of processor cores for each GPU. There is no
    fix for that reason. Say `num_workers=0` where the default is meant.

    ## Exceptions

    Unpacked arguments; data in memory (`TensorDataset`, a dataset that only indexes), data that are on the GPU, streams
    (each worker would give all of them), datasets that are not known from the file, and tests.

    ## References

    - [Multi-process data loading](https://docs.pytorch.org/docs/stable/data.html#multi-process-data-loading)
    """

    code = "TL506"
    name = "dataloader-workers"
    level = Level.HINT
    summary = "The training process loads every sample itself, and the GPU waits."

    @on_call(LOADER)
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        if has_unknown_arguments(call) or loader_argument(call, "num_workers") is not None:
            return
        if is_in_test(semantics, call):
            return
        work, where = _work_of(call, semantics)
        if work is None:
            return
        message = f"No `num_workers`: the training process itself {where} for each sample, and the model waits."
        yield self.found(call, message, related=[(work, "work for each sample")])


def _work_of(call: ast.Call, semantics: Semantics) -> tuple[ast.AST | None, str]:
    """What the dataset of a loader does for each sample, and in words; None if nothing is known."""
    node = loaded_class(semantics, call)
    if node is not None:
        return _work_of_class(ClassView(semantics, node))
    made = whole_dataset(semantics, loader_argument(call, "dataset"))
    name = semantics.name(made.func) if made is not None else ""
    local = semantics.local_class(made.func) if made is not None else None
    if local is not None:
        return _work_of_class(ClassView(semantics, local))
    if not name.startswith("torchvision.datasets.") or not is_dataset(name) or name in _MADE_UP:
        return None, ""
    return made, f"decodes and transforms images of `{name.rpartition('.')[2]}`"


def _work_of_class(view: ClassView) -> tuple[ast.AST | None, str]:
    semantics = view.semantics
    if "torch.utils.data.IterableDataset" in semantics.ancestors(view.node):
        return None, ""
    methods = view.called_from("__getitem__", "__getitems__")
    calls = [call for method in methods for call in nodes_within(method, ast.Call) if isinstance(call, ast.Call)]
    if any(moves_to_cuda(semantics, inner) for method in view.methods for inner in nodes_within(method, ast.Call)):
        return None, ""
    for call in calls:
        called = getattr(call.func, "attr", getattr(call.func, "id", ""))
        if _READING.match(called) and not _is_own_method(call, view):
            return call, f"runs `{ast.unparse(call.func)}`"
    return None, ""


def _is_own_method(call: ast.Call, view: ClassView) -> bool:
    """Whether a method of the class is called, whose body tells what it does."""
    function = call.func
    return isinstance(function, ast.Attribute) and view.semantics.find_method(view.node, function.attr) is not None
