from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint import torch_api
from torchlint.idioms.modules.module_state import given_arguments
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_call
from torchlint.semantics.unit import Unit

_CLASSES = ("torch.nn.RNN", "torch.nn.LSTM", "torch.nn.GRU")


class RnnDropoutSingleLayer(Rule):
    """## What it does

    Reports `dropout=` of an `nn.RNN`, `nn.LSTM` or `nn.GRU` that has one layer.

    ## Why is this bad?

    The dropout stands between the layers, after all but the last one. With one layer there is no such place: nothing
    is dropped, and torch warns.

    ## Example

    ```python
    import torch.nn as nn

    encoder = nn.GRU(32, 64, batch_first=True, dropout=0.3)
    ```

    ## Use instead

    ```python
    import torch.nn as nn

    encoder = nn.GRU(32, 64, batch_first=True)
    ```

    The fix takes the argument away, which changes nothing but the warning. For dropout of the output put an
    `nn.Dropout` behind it, for dropout between layers set `num_layers`.

    ## Exceptions

    A number of layers, or a probability, that is no literal.

    ## References

    - [torch.nn.GRU](https://docs.pytorch.org/docs/stable/generated/torch.nn.GRU.html)
    """

    code = "TL115"
    name = "rnn-dropout-single-layer"
    level = Level.WARNING
    fix = FixKind.SAFE
    summary = "Dropout of a recurrent network with one layer drops nothing."

    @on_call(*_CLASSES)
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        facts = torch_api.module_facts(unit.semantics.name(call.func))
        given = given_arguments(call, facts.parameters, unit.semantics) if facts is not None else None
        if given is None or given.get("num_layers", 1) != 1:
            return
        dropout = given.get("dropout", 0)
        if isinstance(dropout, bool) or not isinstance(dropout, int | float) or not 0 < dropout <= 1:
            return
        keyword = next((item for item in call.keywords if item.arg == "dropout"), None)
        fixes = []
        last = len(call.args) - 1
        if keyword is not None or (facts is not None and facts.parameters.index("dropout") == last):
            value = keyword.value if keyword is not None else call.args[last]
            fixes = [FixPlan("Remove `dropout`", "safe", lambda edit: edit.remove_argument(call, value))]
        yield self.found(
            keyword or call,
            f"`dropout={dropout}` drops nothing: it acts between layers, and `{ast.unparse(call.func)}` has one here.",
            fixes=fixes,
        )
