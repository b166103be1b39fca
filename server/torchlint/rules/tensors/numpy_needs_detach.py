from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.idioms.surroundings.expected_errors import is_expected_to_raise
from torchlint.idioms.training.requires_grad import graph_of
from torchlint.idioms.values.gpu_tensors import moved_to_gpu
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_method
from torchlint.semantics.unit import Unit


class NumpyNeedsDetach(Rule):
    """## What it does

    Reports `.numpy()` on a tensor that requires gradients, or that is on the GPU.

    ## Why is this bad?

    An array of NumPy shares the memory of the tensor, and can neither carry a graph nor live on the GPU: the call
    raises. `.detach()` leaves the graph behind and `.cpu()` copies from the GPU.

    ## Example

    ```python
    import torch

    weights = torch.zeros(3, requires_grad=True)
    values = weights.numpy()
    ```

    ## Use instead

    ```python
    import torch

    weights = torch.zeros(3, requires_grad=True)
    values = weights.detach().numpy()
    ```

    ## Exceptions

    Results that are computed under `torch.no_grad()`, or in a function whose caller may have switched gradients off,
    and modules whose parameters the file freezes. `numpy(force=True)` does all of this by itself.

    ## References

    - [torch.Tensor.numpy](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.numpy.html)
    """

    code = "TL418"
    name = "numpy-needs-detach"
    level = Level.ERROR
    fix = FixKind.UNSAFE
    summary = "An array can neither carry a graph nor live on the GPU: the call raises."

    @on_method("numpy")
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        assert isinstance(call.func, ast.Attribute)
        tensor = call.func.value
        if call.args or call.keywords or unit.semantics.names(call.func):
            return
        graph = graph_of(unit.semantics, tensor)
        moved = moved_to_gpu(unit.semantics, tensor)
        if (graph is None and moved is None) or is_expected_to_raise(call):
            return
        shown = ast.unparse(tensor)
        subject = f"`{shown}`" if len(shown) <= 50 else "The tensor"
        reasons: list[str] = []
        related: list[tuple[ast.AST, str]] = []
        needed = ""
        if graph is not None:
            reasons.append(f"requires gradients ({graph.why})")
            related.append((graph.node, "the graph comes from here"))
            needed += ".detach()"
        if moved is not None:
            reasons.append("is on the GPU")
            related.append((moved, "moved to the GPU here"))
            needed += ".cpu()"
        message = f"{subject} {' and '.join(reasons)}, so `.numpy()` raises: use `{needed}.numpy()`."
        fix = FixPlan(f"Use `{needed}.numpy()`", "unsafe", lambda edit: edit.insert_after(tensor, needed))
        yield self.found(call, message, related=[item for item in related if item[0] is not tensor], fixes=[fix])
