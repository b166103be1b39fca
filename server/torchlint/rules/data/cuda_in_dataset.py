from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.idioms.data.loaders import LOADER, has_workers, loader_argument, loaders_of
from torchlint.idioms.surroundings.called_code import code_run_by, function_run_by
from torchlint.idioms.values.cuda import moves_to_cuda
from torchlint.rules.base import Diagnosis, Level, Rule, on_call, on_class
from torchlint.semantics.classes import ClassView, self_attributes
from torchlint.semantics.nodes import argument, enclosing_function, nodes_within
from torchlint.semantics.scopes import FunctionNode
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit

_CONTEXTS = ("multiprocessing_context", "worker_init_fn")
_DEEPEST = 3


class CudaInDataset(Rule):
    """## What it does

    Reports work on the GPU (`.cuda()`, `.to("cuda")`, `device="cuda"`) in the `__getitem__` of a dataset, or in a
    `collate_fn`, of a `DataLoader` of the same file that has workers; and tensors or modules that `__init__` puts on
    the GPU and `__getitem__` uses.

    ## Why is this bad?

    Workers are forked (the default on Linux below Python 3.14), and a forked process cannot use the CUDA context of its
    parent: "Cannot re-initialize CUDA in forked subprocess". Where it does work, each worker holds a context of some
    hundred megabytes, and every sample travels back through CUDA's shared memory.

    ## Example

    ```python
    from torch.utils.data import DataLoader, Dataset


    class Images(Dataset):
        def __len__(self):
            return len(self.images)

        def __getitem__(self, index):
            return self.images[index].cuda()


    for batch in DataLoader(Images(), batch_size=8, num_workers=4):
        train(batch)
    ```

    ## Use instead

    ```python
    from torch.utils.data import DataLoader, Dataset


    class Images(Dataset):
        def __len__(self):
            return len(self.images)

        def __getitem__(self, index):
            return self.images[index]


    for batch in DataLoader(Images(), batch_size=8, num_workers=4, pin_memory=True):
        train(batch.cuda(non_blocking=True))
    ```

    ## Exceptions

    Loaders without workers; a start method or context that is chosen (`spawn`, `forkserver`), or a `worker_init_fn`
    that may choose the device; a device that is not known from the file.

    ## References

    - [CUDA in multiprocessing](https://docs.pytorch.org/docs/stable/notes/multiprocessing.html#cuda-in-multiprocessing)
    - [Multi-process data loading](https://docs.pytorch.org/docs/stable/data.html#multi-process-data-loading)
    """

    code = "TL504"
    name = "cuda-in-dataset"
    level = Level.WARNING
    summary = "Worker processes cannot use the CUDA context of the process that they are forked from."

    @on_class()
    def check_dataset(self, view: ClassView, unit: Unit) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        if not view.node.bases or "torch.utils.data.Dataset" not in semantics.ancestors(view.node):
            return
        loading = view.called_from("__getitem__", "__getitems__")
        methods = [method for method in view.methods if method in loading and method.name != "__init__"]
        found = [place for method in methods for place in _places(view, method, semantics)]
        if not found:
            return
        loaders = [call for call in loaders_of(semantics, view.node) if _forks(call, semantics)]
        if loaders:
            yield self._diagnose(found, "a worker of the `DataLoader`", (loaders[0], "loaded with workers"))

    @on_call(LOADER)
    def check_collate(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        given = loader_argument(call, "collate_fn")
        if given is None or not _forks(call, unit.semantics):
            return
        function = _collating(given, unit.semantics)
        if function is None:
            return
        run = [function] if isinstance(function, ast.Lambda) else code_run_by(function, unit.semantics)
        calls = (item for code in run for item in nodes_within(code, ast.Call))
        found: list[tuple[ast.AST, ast.AST | None]] = []
        found += [(item, None) for item in calls if moves_to_cuda(unit.semantics, item)]
        if found:
            yield self._diagnose(found, "a worker of the `DataLoader`", (given, "collates in the workers"))

    def _diagnose(
        self, found: list[tuple[ast.AST, ast.AST | None]], where: str, loader: tuple[ast.AST, str]
    ) -> Diagnosis:
        place, made = found[0]
        message = f"This runs in {where}, which is forked and cannot use CUDA after its parent."
        related = [(made, "put on the GPU")] if made is not None else []
        related += [(other, "here too") for other, _ in found[1:3]]
        return self.found(place, message, related=[*related, loader])


def _collating(given: ast.expr, semantics: Semantics, depth: int = 0) -> FunctionNode | ast.Lambda | None:
    """The function of the file that runs when a loader calls its ``collate_fn``: itself, the method or the
    ``__call__`` of an object, or what ``functools.partial`` has bound."""
    value = semantics.value_of(given)
    if isinstance(value, ast.Lambda):
        return value
    if semantics.is_call_to(value, "functools.partial") and isinstance(value, ast.Call) and depth < _DEEPEST:
        bound = argument(value, 0, None)
        return _collating(bound, semantics, depth + 1) if bound is not None else None
    function = function_run_by(given, semantics)
    if function is not None:
        return function
    holder, method = (given.value, given.attr) if isinstance(given, ast.Attribute) else (given, "__call__")
    for owner, name in ((holder, method), (given, "__call__")):
        kind = semantics.kind(owner)
        if kind is not None and kind.class_node is not None:
            return semantics.find_method(kind.class_node, name)
    return None


def _places(view: ClassView, method: FunctionNode, semantics: Semantics) -> Iterator[tuple[ast.AST, ast.AST | None]]:
    """What a method does on the GPU, with the place where `__init__` put it there."""
    for call in nodes_within(method, ast.Call):
        if moves_to_cuda(semantics, call):
            yield call, None
    for attribute in self_attributes(method):
        if not isinstance(attribute.ctx, ast.Load):
            continue
        writes = view.writes(attribute.attr)
        if len(writes) != 1 or writes[0].path or not moves_to_cuda(semantics, writes[0].value):
            continue
        function = enclosing_function(writes[0].statement)
        if function is not None and function.name == "__init__" and writes[0].value is not None:
            yield attribute, writes[0].value


def _forks(call: ast.Call, semantics: Semantics) -> bool:
    """Whether a loader starts workers in the default way."""
    if not has_workers(semantics, call) or any(item.arg is None for item in call.keywords):
        return False
    if any(loader_argument(call, name) is not None for name in _CONTEXTS):
        return False
    starts = semantics.module.calls_of("set_start_method")
    return not any(argument(start, 0, "method") is not None for start in starts)
