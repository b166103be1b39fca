from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchlint import torch_api
from torchlint.fixes import Editor
from torchlint.idioms.modules.layer_order import (
    Neighbours,
    may_build,
    may_hold,
    neighbours_in_class,
    neighbours_in_run,
    run_of_call,
)
from torchlint.idioms.modules.layer_sizes import layer_argument
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_call, on_module_class
from torchlint.semantics.classes import ClassView
from torchlint.semantics.literals import UNKNOWN
from torchlint.semantics.nodes import contains, enclosing_class, enclosing_function, has_unknown_arguments, nodes_within
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

_LAYERS = frozenset(
    (
        *("torch.nn.Linear", "torch.nn.LazyLinear"),
        *(
            f"torch.nn.{lazy}Conv{transposed}{d}d"
            for lazy in ("", "Lazy")
            for transposed in ("", "Transpose")
            for d in (1, 2, 3)
        ),
    )
)
_NORMS = frozenset(
    ("torch.nn.SyncBatchNorm", *(f"torch.nn.{lazy}BatchNorm{d}d" for lazy in ("", "Lazy") for d in (1, 2, 3)))
)
_NORM_TAILS = frozenset(name.rpartition(".")[2] for name in _NORMS)


class BiasBeforeBatchNorm(Rule):
    """## What it does

    Points out convolutions and linear layers with a bias whose output goes straight into a batch norm.

    ## Why is this bad?

    Batch norm subtracts the mean of each channel, and the bias with it; what shifts the output is the bias of the batch
    norm itself. The layer's bias costs memory and time in every step and changes nothing.

    ## Example

    ```python
    import torch.nn as nn

    block = nn.Sequential(
        nn.Conv2d(3, 64, 3, padding=1),
        nn.BatchNorm2d(64),
        nn.ReLU(),
    )
    ```

    ## Use instead

    ```python
    import torch.nn as nn

    block = nn.Sequential(
        nn.Conv2d(3, 64, 3, padding=1, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
    )
    ```

    ## Exceptions

    Layers whose output something else than the batch norm reads, too, and layers whose bias the file reads or sets.
    Files that keep batch norms in eval mode: there the mean of the batch is not subtracted.

    Checkpoints that hold the bias no longer load with `strict=True` after the change.

    ## References

    - [Disable bias for convolutions directly followed by a batch norm](https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#disable-bias-for-convolutions-directly-followed-by-a-batch-norm)
    """

    code = "TL118"
    name = "bias-before-batch-norm"
    level = Level.HINT
    fix = FixKind.UNSAFE
    summary = "Batch norm takes the bias of the layer before it out again: it only costs time and memory."

    @on_call("torch.nn.Sequential")
    def check_sequential(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        if may_hold(call, _NORM_TAILS, unit.semantics):
            yield from self._check(neighbours_in_run(run_of_call(call, unit.semantics), call), call, unit.semantics)

    @on_module_class()
    def check_class(self, view: ClassView, unit: Unit) -> Iterator[Diagnosis]:
        if may_build(view, _NORM_TAILS):
            yield from self._check(neighbours_in_class(view), view.node, view.semantics)

    def _check(self, pairs: Iterable[Neighbours], place: ast.AST, semantics: Semantics) -> Iterator[Diagnosis]:
        for pair in pairs:
            layer, norm, build = pair.first, pair.second, pair.first.build
            if layer.name not in _LAYERS or norm.name not in _NORMS or not pair.only or build is None:
                continue
            if not _has_bias(build, layer.name, semantics) or not _is_of(build, place, semantics):
                continue
            if _bias_is_read(build, semantics) or _stands_elsewhere(pair) or _freezes_batch_norm(semantics):
                continue
            kept = layer_argument(build, facts, "bias") if (facts := torch_api.module_facts(layer.name)) else None
            fixes = [] if kept is not None and not _is_keyword(build, kept) else [_fix(build)]
            yield self.found(
                build,
                f"The bias of `{layer.written}` has no effect: the batch norm behind it subtracts the mean.",
                related=[(norm.build if norm.build is not None else norm.node, "the batch norm")],
                fixes=fixes,
            )


def _stands_elsewhere(pair: Neighbours) -> bool:
    """Whether a batch norm behind a linear layer may normalise another dimension than the one that the bias is of:
    ``nn.BatchNorm1d(length)`` of sequences."""
    first, second = torch_api.module_facts(pair.first.name), torch_api.module_facts(pair.second.name)
    if first is None or second is None or not pair.first.name.endswith("Linear") or "Lazy" in pair.second.name:
        return False
    sizes = [
        layer_argument(layer.build, facts, facts.out_size)
        for layer, facts in ((pair.first, first), (pair.second, second))
        if layer.build is not None and facts.out_size is not None
    ]
    return len({ast.unparse(size) for size in sizes if size is not None}) != 1


def _has_bias(build: ast.Call, name: str, semantics: Semantics) -> bool:
    """Whether a layer is certainly made with a bias."""
    facts = torch_api.module_facts(name)
    if facts is None or has_unknown_arguments(build):
        return False
    given = layer_argument(build, facts, "bias")
    value = True if given is None else semantics.literal(given)
    return value is not UNKNOWN and value is True


def _is_of(build: ast.Call, place: ast.AST, semantics: Semantics) -> bool:
    """Whether a layer is made at this place for this place: not by a function that makes it for others too."""
    if isinstance(place, ast.ClassDef):
        return enclosing_class(build) is place
    return contains(place, build) or _holder(build) is _holder(place)


def _holder(node: ast.AST) -> ast.AST | None:
    current = parent_of(node)
    while current is not None and not isinstance(current, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        current = parent_of(current)
    return current


def _bias_is_read(build: ast.Call, semantics: Semantics) -> bool:
    """Whether the class or function that holds a layer reads or sets its bias: ``self.conv.bias.data.fill_(1)``."""
    statement: ast.AST | None = build
    while statement is not None and not isinstance(statement, ast.stmt):
        statement = parent_of(statement)
    names = {_last_name(target) for target in statement.targets} if isinstance(statement, ast.Assign) else set()
    owner, holder = enclosing_class(build), _holder(build)
    places = semantics.module.methods(owner) if owner is not None else [holder] if holder is not None else []
    return any(
        isinstance(node, ast.Attribute) and node.attr == "bias" and _last_name(node.value) in names
        for place in places
        for node in nodes_within(place, ast.Attribute)
    )


def _freezes_batch_norm(semantics: Semantics) -> bool:
    """Whether a function of the file puts batch norms into eval mode: then they do not subtract the mean of the batch.

    ``if "BatchNorm" in type(module).__name__: module.eval()``, or the same with ``isinstance``.
    """
    functions = {enclosing_function(call) for call in semantics.module.calls_of("eval")}
    return any(
        "BatchNorm" in str(getattr(node, "value", "") if isinstance(node, ast.Constant) else getattr(node, "attr", ""))
        for function in functions
        if function is not None
        for node in nodes_within(function, ast.Constant, ast.Attribute)
    )


def _last_name(expression: ast.expr) -> str:
    match expression:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Subscript(value=value):
            return _last_name(value)
        case _:
            return ""


def _is_keyword(build: ast.Call, value: ast.expr) -> bool:
    return any(item.value is value for item in build.keywords)


def _fix(build: ast.Call) -> FixPlan:
    def apply(edit: Editor) -> None:
        edit.add_keyword(build, "bias", "False")

    return FixPlan("Build it with `bias=False`", "unsafe", apply)
