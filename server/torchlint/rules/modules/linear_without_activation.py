from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from torchlint import torch_api
from torchlint.idioms.modules.layer_order import (
    Applied,
    Neighbours,
    may_build,
    may_hold,
    neighbours_in_class,
    neighbours_in_run,
    run_of_call,
)
from torchlint.idioms.modules.layer_sizes import layer_argument, sizes_of_construction
from torchlint.idioms.surroundings.stated import is_stated
from torchlint.regex import regex
from torchlint.rules.base import Diagnosis, Level, Rule, on_call, on_module_class
from torchlint.semantics.classes import ClassView
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit

_LAYERS = frozenset(("torch.nn.Linear", *(f"torch.nn.Conv{d}d" for d in (1, 2, 3))))
_TAILS = frozenset(name.rpartition(".")[2] for name in _LAYERS)
#: What keeps a map linear where it stands between two.
_STRAIGHT = frozenset(("torch.nn.Dropout", "torch.nn.Identity"))
#: What says that the pair is one map on purpose.
_ON_PURPOSE = regex(
    r"lora|low.?rank|factori[sz]|separable|depth.?wise|point.?wise|bottleneck|linear (?:net|model|probe|auto)|svd"
    r"|squash|no (?:activation|non.?linearity)|without (?:activation|non.?linearity)|deep.?linear",
    re.IGNORECASE,
)


class LinearWithoutActivation(Rule):
    """## What it does

    Points out two linear layers, or two convolutions of one kind, that run one right after the other, or with only
    dropout between.

    ## Why is this bad?

    Two linear maps in a row are one linear map: the second layer adds parameters and time, and nothing that the first
    could not learn. Mostly an activation was forgotten.

    ## Example

    ```python
    import torch.nn as nn

    head = nn.Sequential(
        nn.Linear(400, 120),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, 10),
    )
    ```

    ## Use instead

    ```python
    import torch.nn as nn

    head = nn.Sequential(
        nn.Linear(400, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, 10),
    )
    ```

    ## Exceptions

    Pairs that make a large map cheaper: a layer between that is narrower than both sides (low rank, LoRA), depthwise
    and pointwise convolutions, kernels such as 1 x 7 after 7 x 1. Pairs whose sizes cannot be compared, and outputs
    that something else reads, too. Files of tests.

    ## References

    - [Building models: activation functions](https://docs.pytorch.org/tutorials/beginner/introyt/modelsyt_tutorial.html)
    """

    code = "TL117"
    name = "linear-without-activation"
    level = Level.HINT
    summary = "Two linear layers with nothing between them are one linear layer."

    @on_call("torch.nn.Sequential")
    def check_sequential(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        if not may_hold(call, _TAILS, unit.semantics, 2):
            return
        run = run_of_call(call, unit.semantics)
        if any(layer is not None and layer.name in _LAYERS for layer in run):
            undropped = tuple(layer for layer in run if layer is None or layer.name not in _STRAIGHT)
            yield from self._check(neighbours_in_run(undropped, call), unit.semantics)

    @on_module_class()
    def check_class(self, view: ClassView, unit: Unit) -> Iterator[Diagnosis]:
        if may_build(view, _TAILS, 2):
            yield from self._check(neighbours_in_class(view), view.semantics)

    def _check(self, pairs: Iterable[Neighbours], semantics: Semantics) -> Iterator[Diagnosis]:
        if any(semantics.module.definitions(name) for name in ("pytest", "unittest")):
            return  # tests want layers that are easy to reckon with
        for pair in pairs:
            first, second = pair.first, pair.second
            if first.name != second.name or first.name not in _LAYERS or not pair.only:
                continue
            if first.build is None or second.build in (None, first.build) or _makes_cheaper(first, second, semantics):
                continue
            if any(is_stated(node, _ON_PURPOSE) for node in (first.build, second.build, second.node)):
                continue
            noun = "linear layers" if first.name.endswith("Linear") else "convolutions"
            yield self.found(
                second.node,
                f"`{second.written}` runs right after `{first.written}`: two {noun} with no activation between are one"
                " linear map.",
                related=[(first.node, "the one before")],
            )


def _makes_cheaper(first: Applied, second: Applied, semantics: Semantics) -> bool:
    """Whether a pair may stand for one larger map: what is between is not proven to be as wide as one of its sides."""
    assert first.build is not None
    assert second.build is not None
    if first.name != "torch.nn.Linear" and _is_factored(first, second, semantics):
        return True
    one = sizes_of_construction(first.build, first.name, semantics)
    two = sizes_of_construction(second.build, second.name, semantics)
    if one.gives is not None:
        sides = [size for size in (one.takes, two.gives) if size is not None]
        if len(sides) == 2 or any(one.gives >= side for side in sides):
            return all(one.gives < side for side in sides)
    facts = torch_api.module_facts(first.name)
    assert facts is not None
    written = [
        ast.unparse(value)
        for build, parameter in (
            (first.build, facts.in_size),
            (first.build, facts.out_size),
            (second.build, facts.out_size),
        )
        if parameter is not None and (value := layer_argument(build, facts, parameter)) is not None
    ]
    return len(written) < 3 or written[1] not in (written[0], written[2])


def _is_factored(first: Applied, second: Applied, semantics: Semantics) -> bool:
    """Whether two convolutions differ in what they mix: channels or places, rows or columns."""
    facts = torch_api.module_facts(first.name)
    assert facts is not None
    for parameter in ("groups", "kernel_size", "dilation", "stride", "padding_mode"):
        values = [layer_argument(layer.build, facts, parameter) for layer in (first, second) if layer.build is not None]
        if parameter == "groups":
            if any(value is not None and semantics.literal(value) != 1 for value in values):
                return True
        elif len({ast.unparse(value) if value is not None else "" for value in values}) > 1:
            return True
    return False
