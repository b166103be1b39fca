from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.idioms.data.batches import loaders_moved_to_cuda
from torchlint.idioms.data.loader_arguments import loader_arguments
from torchlint.idioms.data.loader_use import made_by
from torchlint.idioms.data.loaders import LOADER, loaded_class, loader_argument
from torchlint.idioms.surroundings.test_code import is_in_test
from torchlint.idioms.values.cuda import moves_to_cuda
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_call
from torchlint.semantics.classes import ClassView
from torchlint.semantics.nodes import contains, nodes_within
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit


class PinMemory(Rule):
    """## What it does

    Reports a `DataLoader` without `pin_memory=True` whose batches a loop moves to a GPU.

    ## Why is this bad?

    CUDA copies from ordinary memory in two steps: the driver first copies into a pinned buffer of its own, and the
    program waits. From a pinned batch the copy is one step and faster, and with `non_blocking=True` it runs while the
    GPU computes.

    ## Example

    ```python
    from torch.utils.data import DataLoader

    loader = DataLoader(dataset, batch_size=64, num_workers=4)

    for x, y in loader:
        loss = criterion(model(x.cuda()), y.cuda())
    ```

    ## Use instead

    ```python
    from torch.utils.data import DataLoader

    loader = DataLoader(dataset, batch_size=64, num_workers=4, pin_memory=True)

    for x, y in loader:
        loss = criterion(model(x.cuda()), y.cuda())
    ```

    ## Exceptions

    A device that may be the CPU (there pinning only warns), unpacked arguments, data that are on the GPU already, a
    `collate_fn` that pins by itself, and tests.

    ## References

    - [Memory pinning](https://docs.pytorch.org/docs/stable/data.html#memory-pinning)
    - [Use pinned memory buffers](https://docs.pytorch.org/docs/stable/notes/cuda.html#use-pinned-memory-buffers)
    """

    code = "TL507"
    name = "pin-memory"
    level = Level.HINT
    fix = FixKind.UNSAFE
    summary = "Copies to the GPU are slower from memory that is not pinned."

    @on_call(LOADER)
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        known = loader_arguments(semantics, call)
        if known is None or "pin_memory" in known.possible:
            return
        given = known.given.get("pin_memory")
        if given is not None and semantics.literal(given) is not False:
            return
        moved = loaders_moved_to_cuda(semantics).get(call)
        if moved is None or _is_on_gpu(call, semantics) or _pins_itself(call, semantics) or is_in_test(semantics, call):
            return
        message = f"`{_shown(moved)}` copies from memory that is not pinned: the loader has no `pin_memory=True`."
        if given is None:
            fix = FixPlan("Add `pin_memory=True`", "unsafe", lambda edit: edit.add_keyword(call, "pin_memory", "True"))
        else:
            fix = FixPlan("Set `pin_memory=True`", "unsafe", lambda edit: edit.replace(given, "True"))
        fixes = [fix] if given is None or (isinstance(given, ast.Constant) and contains(call, given)) else []
        yield self.found(call, message, related=[(moved, "batches go to the GPU")], fixes=fixes)


def _is_on_gpu(call: ast.Call, semantics: Semantics) -> bool:
    """Whether the dataset gives tensors that are on a GPU: pinning them raises."""
    node = loaded_class(semantics, call)
    if node is not None:
        methods = ClassView(semantics, node).methods
        return any(moves_to_cuda(semantics, inner) for method in methods for inner in nodes_within(method, ast.Call))
    made = made_by(semantics, loader_argument(call, "dataset"))
    values = [semantics.value_of(item) for item in made.args] if made is not None else []
    return any(moves_to_cuda(semantics, part) for value in values if value is not None for part in ast.walk(value))


def _pins_itself(call: ast.Call, semantics: Semantics) -> bool:
    """Whether the function that makes batches pins them, or is one of a sampler, whose graphs no loader pins."""
    collate = loader_argument(call, "collate_fn")
    function = semantics.local_function(collate)
    if function is None:
        match collate:
            case ast.Attribute(value=ast.Name(id=holder)) if holder != "self" and not semantics.names(collate):
                dataset = loader_argument(call, "dataset")
                return not (isinstance(dataset, ast.Name) and dataset.id == holder)
            case _:
                return False
    return any(
        isinstance(inner.func, ast.Attribute) and inner.func.attr == "pin_memory"
        for inner in nodes_within(function, ast.Call)
        if isinstance(inner, ast.Call)
    )


def _shown(moved: ast.Call) -> str:
    text = ast.unparse(moved)
    return text if len(text) <= 40 else f"{getattr(moved.func, 'attr', '')}()"
