from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from itertools import combinations, pairwise

from torchlint.idioms.modules.layer_order import Applied, applications, applied, may_build, value_before
from torchlint.idioms.surroundings.stated import is_stated
from torchlint.idioms.values.iterators import can_follow
from torchlint.regex import regex
from torchlint.rules.base import Diagnosis, Level, Rule, on_module_class
from torchlint.semantics.classes import ClassView
from torchlint.semantics.nodes import (
    are_exclusive,
    argument,
    contains,
    enclosing_function,
    nodes_within,
    statement_of,
)
from torchlint.semantics.scopes import Binding, last_name
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

_NORMS = frozenset(
    ("torch.nn.SyncBatchNorm", *(f"torch.nn.{lazy}BatchNorm{d}d" for lazy in ("", "Lazy") for d in (1, 2, 3)))
)
_NORM_TAILS = frozenset(name.rpartition(".")[2] for name in _NORMS)
#: What says that one batch norm is meant to run several times.
_SHARED = regex(
    r"shar(?:e|ing)|siamese|twin|\bti(?:ed?|ying)\b|re-?us|recursi|recurren|same (?:bn|norm|batch)", re.IGNORECASE
)
_WITH_WEIGHTS = ("torch.nn.Conv", "torch.nn.Lazy", "torch.nn.Linear", "torch.nn.Sequential", ".")
#: How many layers without weights may stand between a layer and its batch norm.
_LONGEST_WAY = 6


class ReusedBatchNorm(Rule):
    """## What it does

    Reports a batch norm that one `forward` runs behind several different layers, or behind each layer of a list, and
    one that is a member of Sequentials at several places.

    ## Why is this bad?

    A batch norm keeps one mean and one variance, which evaluation uses. Run behind two layers, it mixes the statistics
    of both: in training each batch is normalised by its own, in evaluation none of the two by the right ones.

    ## Example

    ```python
    import torch.nn as nn


    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(8, 8, 3, bias=False)
            self.conv2 = nn.Conv2d(8, 8, 3, bias=False)
            self.bn = nn.BatchNorm2d(8)

        def forward(self, x):
            x = self.bn(self.conv1(x)).relu()
            return self.bn(self.conv2(x)).relu()
    ```

    ## Use instead

    ```python
    import torch.nn as nn


    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(8, 8, 3, bias=False)
            self.conv2 = nn.Conv2d(8, 8, 3, bias=False)
            self.bn1 = nn.BatchNorm2d(8)
            self.bn2 = nn.BatchNorm2d(8)

        def forward(self, x):
            x = self.bn1(self.conv1(x)).relu()
            return self.bn2(self.conv2(x)).relu()
    ```

    ## Exceptions

    Batch norms that run with their layer on several inputs (two views of an image, the steps of a recurrence), that
    keep no statistics, or that the author says are shared. Branches of which only one runs.

    ## References

    - [torch.nn.BatchNorm2d](https://docs.pytorch.org/docs/stable/generated/torch.nn.BatchNorm2d.html)
    """

    code = "TL128"
    name = "reused-batch-norm"
    level = Level.WARNING
    summary = "One batch norm behind several layers mixes their statistics: evaluation is wrong for each of them."

    @on_module_class()
    def check(self, view: ClassView, unit: Unit) -> Iterator[Diagnosis]:
        if not may_build(view, _NORM_TAILS):
            return
        by_place: dict[tuple[ast.AST | None, str], list[Applied]] = {}
        for layer in applications(view):
            called = layer.node.func if isinstance(layer.node, ast.Call) else None
            if layer.name in _NORMS and isinstance(called, ast.Attribute) and layer.build is not None:
                by_place.setdefault((enclosing_function(layer.node), called.attr), []).append(layer)
        for (_, name), calls in by_place.items():
            if not _keeps_state(calls[0], view.semantics) or _has_unused_sibling(name, view):
                continue
            yield from self._check_loop(calls, name, view)
            reused = _reused(calls, view.semantics)
            if reused is None or _is_meant((reused[0][0], reused[1][0]), name, view):
                continue
            (first, before), (second, after) = reused
            yield self.found(
                second.node,
                f"`self.{name}` runs behind `{before}` and behind `{after}`: its statistics mix both.",
                related=[(first.node, "first run here"), *([(first.build, "made once, here")] if first.build else [])],
            )
        yield from self._check_listed(view)

    def _check_listed(self, view: ClassView) -> Iterator[Diagnosis]:
        """A batch norm that is a member of Sequentials at several places."""
        listed: dict[ast.Call, list[tuple[Applied, ast.expr]]] = {}
        for method in view.methods:
            for call in nodes_within(method, ast.Call):
                if isinstance(call, ast.Call) and view.semantics.is_named(call.func, "torch.nn.Sequential"):
                    for before, member in pairwise(call.args):
                        norm = _listed(member, call, view.semantics)
                        if norm is not None and norm.build is not None:
                            listed.setdefault(norm.build, []).append((norm, before))
        for build, places in listed.items():
            (first, one), (second, other) = places[0], places[-1]
            if len(places) < 2 or not _keeps_state(first, view.semantics):
                continue
            if not isinstance(one, ast.Call) and ast.unparse(one) == ast.unparse(other):
                continue  # two ways through the same layers
            if are_exclusive(statement_of(first.node), statement_of(second.node)):
                continue
            written = ast.unparse(first.node)
            if _is_meant((first, second), written, view) or _has_unused_sibling(last_name(first.node), view):
                continue
            yield self.found(
                second.node,
                f"`{written}` stands in a Sequential more than once: its statistics mix those of all places.",
                related=[(first.node, "first run here"), (build, "made once, here")],
            )

    def _check_loop(self, calls: list[Applied], name: str, view: ClassView) -> Iterator[Diagnosis]:
        """A batch norm that runs behind each layer of a list, in the loop over it."""
        for call in calls:
            layers = _layers_of_loop(call, view.semantics)
            if layers is not None and not _is_meant((call,), name, view):
                yield self.found(
                    call.node,
                    f"`self.{name}` runs behind each layer of `{ast.unparse(layers)}`: its statistics mix all of them.",
                    related=[
                        (layers, "the loop over the layers"),
                        *([(call.build, "made once, here")] if call.build else []),
                    ],
                )
                return


def _listed(member: ast.expr, holder: ast.Call, semantics: Semantics) -> Applied | None:
    """A member of a Sequential that is a batch norm which a variable or attribute holds."""
    if not isinstance(member, ast.Name | ast.Attribute):
        return None
    kind = semantics.kind(member)
    if kind is None or not kind.proven or kind.origin not in _NORMS or not isinstance(kind.node, ast.Call):
        return None
    if isinstance(member, ast.Attribute) and semantics.class_of_self(member.value) is None:
        return None
    return Applied(member, kind.origin, kind.node, kind, holder)


def _reused(calls: list[Applied], semantics: Semantics) -> tuple[tuple[Applied, str], tuple[Applied, str]] | None:
    """Two calls on one path behind different layers, where no other call shows that layers are run again as well."""
    if len(calls) < 2:
        return None
    before = [(call, _layer_before(call, semantics)) for call in calls]
    names = [name for _, name in before]
    if None in names or len(set(names)) != len(names):
        return None
    for (first, one), (second, other) in combinations(before, 2):
        if one is not None and other is not None and can_follow(first.node, second.node):
            return (first, one), (second, other)
    return None


def _layer_before(norm: Applied, semantics: Semantics) -> str | None:
    """The layer with weights (``self.conv1``) whose output reaches a batch norm through layers without any."""
    value = _value_with_weights(norm, semantics)
    called = value.func if value is not None else None
    return ast.unparse(called) if isinstance(called, ast.Attribute) else None


def _layers_of_loop(norm: Applied, semantics: Semantics) -> ast.expr | None:
    """The list ``self.convs`` where a batch norm runs behind each of its layers: ``for conv in self.convs``, or by an
    index that a loop counts."""
    value = _value_with_weights(norm, semantics)
    match value.func if value is not None else None:
        case ast.Name() as name:
            definitions = semantics.definitions(name)
            source = definitions[0].value if len(definitions) == 1 and definitions[0].kind is Binding.LOOP else None
            if isinstance(source, ast.Call) and isinstance(source.func, ast.Name) and source.func.id == "enumerate":
                source = source.args[0] if source.args else None
            layers, loop = (
                source,
                _loop_with(norm.node, lambda node: source is not None and contains(node.iter, source)),
            )
        case ast.Subscript(value=layers, slice=ast.Name(id=counter)):
            loop = _loop_with(norm.node, lambda node: isinstance(node.target, ast.Name) and node.target.id == counter)
        case _:
            return None
    kind = semantics.kind(layers)
    several = kind is not None and kind.proven and kind.origin == "torch.nn.ModuleList"
    return layers if several and loop is not None and isinstance(layers, ast.Attribute) else None


def _loop_with(node: ast.AST, test: Callable[[ast.For], bool]) -> ast.For | None:
    """The loop around a node that passes a test, and that comes round again."""
    holder = parent_of(node)
    while holder is not None and not isinstance(holder, ast.FunctionDef | ast.AsyncFunctionDef):
        if isinstance(holder, ast.For) and test(holder):
            leaves = any(isinstance(statement, ast.Return | ast.Break) for statement in holder.body)
            return None if leaves else holder
        holder = parent_of(holder)
    return None


def _value_with_weights(norm: Applied, semantics: Semantics) -> ast.Call | None:
    """The call of a layer with weights whose output reaches a batch norm through layers without any."""
    operand = norm.operand
    for _ in range(_LONGEST_WAY):
        value = value_before(operand, semantics) if operand is not None else None
        if not isinstance(value, ast.Call):
            return None
        layer = applied(value, semantics)
        if layer is None or not layer.name:
            return value if isinstance(value.func, ast.Name | ast.Subscript) else None
        if layer.name.startswith(_WITH_WEIGHTS):
            return value
        operand = layer.operand
    return None


def _keeps_state(norm: Applied, semantics: Semantics) -> bool:
    """Whether a batch norm keeps statistics."""
    assert norm.build is not None
    position = None if "Lazy" in norm.name else 4
    return semantics.literal(argument(norm.build, position, "track_running_stats")) is not False


def _has_unused_sibling(name: str, view: ClassView) -> bool:
    """Whether a layer with the same name and another number is never used: then that one was meant (TL109)."""
    stem = re.sub(r"\d+", "#", name)
    return stem != name and any(
        other != name and re.sub(r"\d+", "#", other) == stem and not view.semantics.module.reads_attribute(other)
        for other in view.attributes
    )


def _is_meant(reused: tuple[Applied, ...], name: str, view: ClassView) -> bool:
    texts = [name, view.name, *(ast.get_docstring(method) or "" for method in view.methods)]
    nodes = [node for layer in reused for node in (layer.node, layer.build) if node is not None]
    return any(_SHARED.search(text) for text in texts) or any(is_stated(node, _SHARED) for node in nodes)
