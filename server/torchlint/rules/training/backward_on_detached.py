from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.idioms.surroundings.expected_errors import is_expected_to_raise
from torchlint.idioms.training.gradient_graph import is_foreign, loss_of
from torchlint.idioms.training.graph_cuts import Cut, cut_of
from torchlint.rules.base import Diagnosis, Level, Rule, on_method
from torchlint.semantics.unit import Unit


class BackwardOnDetached(Rule):
    """## What it does

    Reports `backward()` on a value that has no autograd graph: a number from `.item()`, a tensor from `.detach()`,
    `.data`, `argmax` or a comparison, or one that was computed under `torch.no_grad()`.

    ## Why is this bad?

    There is nothing to go back through. `backward()` raises "element 0 of tensors does not require grad and does not
    have a grad_fn", or, for the number that `.item()` gives, "'float' object has no attribute 'backward'".

    ## Example

    ```python
    import torch


    def train(model: torch.nn.Module, loader, criterion, optimizer):
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = criterion(model(inputs), targets).item()
            loss.backward()
            optimizer.step()
    ```

    ## Use instead

    ```python
    import torch


    def train(model: torch.nn.Module, loader, criterion, optimizer):
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = criterion(model(inputs), targets)
            loss.backward()
            optimizer.step()
    ```

    ## Exceptions

    Values of which one path may still carry a graph, values that are written into or made to require gradients, calls
    that are expected to raise, and engines whose `backward(loss)` is their own.

    ## References

    - [Autograd mechanics](https://docs.pytorch.org/docs/stable/notes/autograd.html)
    - [Tensor.detach](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.detach.html)
    """

    code = "TL214"
    name = "backward-on-detached"
    level = Level.ERROR
    summary = "There is no graph to go back through: the call raises."

    @on_method("backward")
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        loss = loss_of(semantics, call) if not is_foreign(semantics, call) else None
        cut = cut_of(semantics, loss) if loss is not None else None
        if loss is not None and cut is not None and cut.how and not is_expected_to_raise(call):
            yield self._diagnosis(call, loss, cut)

    def _diagnosis(self, call: ast.Call, loss: ast.expr, cut: Cut) -> Diagnosis:
        message = f"`{ast.unparse(loss)}` has no graph to go back through: {cut.how}."
        return self.found(call, message, related=[(cut.node, "the graph ends here")])
