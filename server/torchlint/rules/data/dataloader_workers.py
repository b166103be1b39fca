from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.frozen import dataclass
from torchlint.idioms.data.datasets import built_datasets
from torchlint.idioms.data.loader_arguments import loader_arguments
from torchlint.idioms.data.loaders import LOADER, loaded_class
from torchlint.idioms.surroundings.test_code import is_in_test
from torchlint.idioms.values.cuda import moves_to_cuda
from torchlint.regex import regex
from torchlint.rules.base import Diagnosis, Level, Rule, on_call
from torchlint.semantics.classes import ClassView
from torchlint.semantics.nodes import nodes_within
from torchlint.semantics.scopes import FunctionNode, last_name
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.torch_api import is_dataset

#: Calls that read a file, decode it, or work on what was read.
_READING = regex(
    r"^(open|imread|imdecode|load|loads|read|readlines|read_\w+|load_\w+|get_image|fromarray|decode_\w+|loader"
    r"|File|fromfile|loadmat|VideoReader|transform|transforms|_?\w+_transforms?|augment\w*|tokenize|tokenizer|encode_plus"
    r"|preprocess|resize|cvtColor)$"
)
#: Datasets that make their samples.
_MADE_UP = frozenset(("torchvision.datasets.FakeData",))
_DEEPEST = 3
_MOST_FUNCTIONS = 30


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

    Unpacked arguments that the file does not tell; data in memory (`TensorDataset`, a dataset that only indexes), data
    that are on the GPU, streams (each worker would give all of them), datasets that are not known from the file, and
    tests.

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
        given = loader_arguments(semantics, call)
        if given is None or "num_workers" in given.given or "num_workers" in given.possible:
            return
        if is_in_test(semantics, call):
            return
        work = _work_of(call, given.given.get("dataset"), semantics)
        if work is not None:
            message = (
                f"No `num_workers`: the training process itself {work.shown} for each sample, and the model waits."
            )
            yield self.found(call, message, related=[(work.node, "work for each sample")])


@dataclass(frozen=True, eq=False, slots=True)
class _Work:
    """What a dataset does for each sample, where, and in words."""

    node: ast.AST
    shown: str


def _work_of(call: ast.Call, dataset: ast.expr | None, semantics: Semantics) -> _Work | None:
    """What the dataset of a loader does for each sample; None if nothing is known."""
    node = loaded_class(semantics, call)
    if node is not None:
        return _work_of_class(semantics, node, 0)
    return _work_of_built(semantics, dataset, 0)


def _work_of_built(semantics: Semantics, dataset: ast.expr | None, depth: int) -> _Work | None:
    """The same of a dataset by the calls that may have made it, each of which has to do some work; what is made up for
    a trial does not count."""
    built = built_datasets(semantics, dataset)
    if not built.complete:
        return None
    calls = [made for made in built.calls if semantics.name(made.func) not in _MADE_UP]
    found = [_work_of_call(semantics, made, depth) for made in calls]
    return found[0] if found and all(item is not None for item in found) else None


def _work_of_call(semantics: Semantics, made: ast.Call, depth: int) -> _Work | None:
    local = semantics.local_class(made.func)
    if local is not None:
        return _work_of_class(semantics, local, depth)
    name = semantics.name(made.func)
    return _Work(made, _decoding(name)) if _decodes(name) else None


def _decodes(name: str) -> bool:
    """Whether a dataset of torchvision reads images."""
    return name.startswith("torchvision.datasets.") and is_dataset(name) and name not in _MADE_UP


def _decoding(name: str) -> str:
    return f"decodes and transforms images of `{name.rpartition('.')[2]}`"


def _work_of_class(semantics: Semantics, node: ast.ClassDef, depth: int) -> _Work | None:
    view = ClassView(semantics, node)
    bases = semantics.ancestors(node)
    if "torch.utils.data.IterableDataset" in bases or depth > _DEEPEST:
        return None
    if any(moves_to_cuda(semantics, inner) for method in view.methods for inner in nodes_within(method, ast.Call)):
        return None
    methods = _that_run(view)
    if not methods:
        name = next((base for base in sorted(bases) if _decodes(base)), "")
        return _Work(node, _decoding(name)) if name else None
    for call in (call for method in methods for call in nodes_within(method, ast.Call) if isinstance(call, ast.Call)):
        called = last_name(call.func)
        if _READING.match(called) and not _is_own_method(call, view):
            return _Work(call, f"runs `{ast.unparse(call.func)}`")
    return _work_of_wrapped(semantics, methods, depth)


def _that_run(view: ClassView) -> list[FunctionNode]:
    """The methods, and functions of the file, that run when a sample is asked for, in the order of their names."""
    semantics = view.semantics
    found = dict.fromkeys(sorted(view.called_from("__getitem__", "__getitems__"), key=lambda method: method.name))
    queue = list(found)
    while queue and len(found) < _MOST_FUNCTIONS:
        for call in nodes_within(queue.pop(), ast.Call):
            function = semantics.local_function(call.func) if isinstance(call, ast.Call) else None
            if function is not None and function not in found:
                found[function] = None
                queue.append(function)
    return list(found)


def _work_of_wrapped(semantics: Semantics, methods: list[FunctionNode], depth: int) -> _Work | None:
    """The work of another dataset that a sample is taken from: ``image, label = self.images[index]``."""
    for method in methods:
        for entry in nodes_within(method, ast.Subscript):
            whole = entry.value if isinstance(entry, ast.Subscript) else None
            if isinstance(whole, ast.Attribute) and semantics.class_of_self(whole.value) is not None:
                work = _work_of_built(semantics, whole, depth + 1)
                if work is not None:
                    return work
    return None


def _is_own_method(call: ast.Call, view: ClassView) -> bool:
    """Whether a method of the class or a function of the file is called, whose body tells what it does."""
    function = call.func
    if isinstance(function, ast.Attribute):
        return view.semantics.find_method(view.node, function.attr) is not None
    return view.semantics.local_function(function) is not None
