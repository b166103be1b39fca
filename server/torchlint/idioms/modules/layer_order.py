"""Which layer runs right after which: in an ``nn.Sequential`` however it is filled, and in the methods of a module."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import cast

from torchlint import torch_api
from torchlint.frozen import dataclass
from torchlint.idioms.modules.member_lists import members_of_call, members_of_class
from torchlint.idioms.modules.straight_line import is_batch_size, layer_like
from torchlint.semantics.classes import ClassView, self_attributes
from torchlint.semantics.index import index_of
from torchlint.semantics.kinds import Kind
from torchlint.semantics.nodes import argument, enclosing_class, enclosing_function, nodes_within, shortened
from torchlint.semantics.scopes import Binding, last_name
from torchlint.semantics.semantics import Semantics
from torchlint.syntax import parent_of, part_of

_DEEPEST = 6
#: Layers of transformers, which have the size of a model.
ATTENTION = frozenset(
    f"torch.nn.{name}" for name in ("MultiheadAttention", "TransformerEncoder", "TransformerEncoderLayer")
)
_SEQUENTIAL = "torch.nn.Sequential"
_METHODS = frozenset({"relu", "sigmoid", "tanh", "softmax", "log_softmax"})


@dataclass(frozen=True, eq=False, slots=True)
class Applied:
    """A layer at the place where it runs, or a function that does what a layer does.

    ``name`` is the class of torch (``torch.nn.ReLU``, for ``F.relu`` too), of this file (``.Block``), or empty where it
    is not known. ``node`` is where it stands: the member of a Sequential, the call in a method. ``build`` is the call
    that makes the layer, if there is exactly one. ``holder`` is the Sequential that lists it, ``operand`` what a method
    applies it to.
    """

    node: ast.expr
    name: str = ""
    build: ast.Call | None = None
    kind: Kind | None = None
    holder: ast.AST | None = None
    operand: ast.expr | None = None

    @property
    def written(self) -> str:
        """The layer as the code writes it, shortened."""
        return shortened(self.build or self.node, 60)


#: What runs in order; None stands for what cannot be read, or for a branch that may be left out.
Run = tuple[Applied | None, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Neighbours:
    """``second`` is applied to what ``first`` gives; ``only`` where nothing else gets that value, and no other place
    runs either layer."""

    first: Applied
    second: Applied
    only: bool = True


def run_of_call(call: ast.Call, semantics: Semantics) -> Run:
    """What a call of ``nn.Sequential`` runs in order, members of inner ones too."""
    return _flattened(members_of_call(call, semantics), call, semantics, 0)


def run_of_class(view: ClassView) -> Run:
    """What a subclass of ``nn.Sequential`` without a ``forward`` of its own runs in order."""
    if _SEQUENTIAL not in view.semantics.ancestors(view.node) or view.semantics.find_method(view.node, "forward"):
        return ()
    return _flattened(members_of_class(view), view.node, view.semantics, 0)


def _flattened(members: Sequence[ast.expr | None], holder: ast.AST, semantics: Semantics, depth: int) -> Run:
    found: list[Applied | None] = []
    for member in members:
        layer = _layer(member, semantics.kind(member)) if member is not None else None
        if layer is None:
            found.append(None)
        else:
            found += opened(replace(layer, holder=holder), semantics, depth)
    return tuple(found)


def opened(layer: Applied, semantics: Semantics, depth: int = 0) -> Run:
    """The layers that a layer runs: the members of a Sequential, itself for any other."""
    if layer.name != _SEQUENTIAL or layer.build is None or depth > _DEEPEST:
        return (layer,)
    members = members_of_call(layer.build, semantics)
    return _flattened(members, layer.build, semantics, depth + 1) if members else (None,)


def _layer(node: ast.expr, kind: Kind | None) -> Applied | None:
    """A layer that stands as a value; None where it is not proven to be a module."""
    if kind is None or not kind.proven or not kind.is_module:
        return None
    return Applied(node, kind.origin, kind.node if isinstance(kind.node, ast.Call) else None, kind)


def applied(call: ast.expr, semantics: Semantics) -> Applied | None:
    """The layer or function that a call in a method applies to its first argument; None for anything else."""
    if not isinstance(call, ast.Call) or any(isinstance(item, ast.Starred) for item in call.args):
        return None
    operand = argument(call, 0, "input")
    flattened = _flattened_operand(call, operand, semantics)
    if flattened is not None:
        return Applied(call, "torch.nn.Flatten", operand=flattened)
    names = semantics.names(call.func)
    if names:
        like = layer_like(semantics.name(call.func))
        return Applied(call, like, operand=operand) if like and operand is not None else None
    if isinstance(call.func, ast.Attribute | ast.Subscript | ast.Name):
        layer = _layer(call, semantics.kind(call.func))
        if layer is not None:
            alone = len(call.args) < 2 or _takes_more(layer.name)
            return replace(layer, operand=operand) if operand is not None and alone else None
    match call.func:
        case ast.Attribute(value=receiver, attr=method) if method in _METHODS:
            kind = semantics.kind(receiver)
            if semantics.class_of_self(receiver) is None and (kind is None or kind.is_tensor):
                return Applied(call, layer_like(f"torch.nn.functional.{method}"), operand=receiver)
    return None


def _takes_more(name: str) -> bool:
    """Whether the layers of a class are given more than their input: ``self.lstm(x, state)``, ``self.mha(q, k, v)``."""
    facts = torch_api.module_facts(name)
    return name in ATTENTION or (facts is not None and facts.kind == "recurrent")


def _flattened_operand(call: ast.Call, operand: ast.expr | None, semantics: Semantics) -> ast.expr | None:
    """What a call makes flat behind the batch: ``torch.flatten(x, 1)``, ``x.flatten(1)``, ``x.view(x.size(0), -1)``."""
    match call:
        case ast.Call(func=ast.Attribute(value=data, attr="flatten"), args=[ast.Constant(value=1)], keywords=[]):
            return data
        case (
            ast.Call(args=[_, ast.Constant(value=1)], keywords=[])
            | ast.Call(args=[_], keywords=[ast.keyword(arg="start_dim", value=ast.Constant(value=1))])
        ):
            return operand if semantics.name(call.func) == "torch.flatten" else None
        case ast.Call(func=ast.Attribute(value=data, attr="view" | "reshape"), args=[size, last], keywords=[]):
            return data if is_batch_size(size, data) and semantics.literal(last) == -1 else None
        case _:
            return None


def may_build(view: ClassView, layers: frozenset[str], count: int = 1) -> bool:
    """Whether a class, with its bases in this file, builds at least so many layers with these last names, itself or by
    functions of the file: asked before the layers of a class are looked at."""
    key = ("may build", view.node, layers, count)
    return view.semantics.module.memo.get(key, lambda: _may_build(view, layers, count), True)


def may_hold(sequential: ast.Call, layers: frozenset[str], semantics: Semantics, count: int = 1) -> bool:
    """Whether a call of ``nn.Sequential`` may be given so many layers with these last names, by what the class around
    it, or the file, builds: asked before its members are read."""
    module, owner = semantics.module, enclosing_class(sequential)
    if owner is not None:
        return may_build(ClassView(semantics, owner), layers, count)
    built = sum(len(module.calls_of(name)) for name in module.names_called(layers))
    return built >= count or module.imports_renamed(layers)


def _may_build(view: ClassView, layers: frozenset[str], count: int) -> bool:
    module = view.semantics.module
    if module.imports_renamed(layers):
        return True
    own = view.semantics.methods_by_name(view.node)
    helpers = module.names_leading_to(layers) - layers - own.keys() - {"__init__"}
    built: set[object] = set()
    for owner in view.semantics.lineage(view.node):
        for method in module.methods(owner):
            called = index_of(part_of(method)).called
            if not helpers.isdisjoint(called):
                return True
            if not layers.isdisjoint(called):
                calls = cast("Iterator[ast.Call]", nodes_within(method, ast.Call))
                built.update(_place_of(call) for call in calls if last_name(call.func) in layers)
    return len(built) >= count


def _place_of(build: ast.Call) -> object:
    """The attribute that a layer is kept in, which one of several holds at a time; the call itself for any other."""
    holder = parent_of(build)
    while isinstance(holder, ast.IfExp):
        holder = parent_of(holder)
    match holder:
        case ast.Assign(targets=[ast.Attribute(attr=name)]):
            return name
        case _:
            return build


def applications(view: ClassView) -> tuple[Applied, ...]:
    """The layers that the methods of a class run, each where it is called, in the order of the source."""
    memo = view.semantics.module.memo
    return memo.get(("applications", view.node), lambda: tuple(_applications(view)), ())


def _applications(view: ClassView) -> Iterator[Applied]:
    for method in view.methods:
        for call in nodes_within(method, ast.Call):
            assert isinstance(call, ast.Call)
            if may_be_layer(call.func, view.semantics) and not view.semantics.names(call.func):
                found = applied(call, view.semantics)
                if found is not None and found.kind is not None:
                    yield found


def may_be_layer(function: ast.expr, semantics: Semantics) -> bool:
    """What the form of a called expression allows, so that few kinds have to be inferred: an attribute or element,
    and no method of a tensor unless it is one of ``self``."""
    if isinstance(function, ast.Attribute):
        return semantics.class_of_self(function.value) is not None or torch_api.tensor_method(function.attr) is None
    return isinstance(function, ast.Subscript)


def neighbours_in_run(run: Run, holder: ast.AST) -> Iterator[Neighbours]:
    """The neighbours that ``holder`` brings together: not those of an inner Sequential."""
    for first, second in pairwise(run):
        if first is not None and second is not None and (first.holder is holder or first.holder is not second.holder):
            yield Neighbours(first, second)


def neighbours_in_class(view: ClassView) -> tuple[Neighbours, ...]:
    """The neighbours that the methods of a module class bring together, and those of a subclass of Sequential."""
    memo = view.semantics.module.memo
    return memo.get(("neighbours", view.node), lambda: tuple(_neighbours_in_class(view)), ())


def _neighbours_in_class(view: ClassView) -> Iterator[Neighbours]:
    yield from neighbours_in_run(run_of_class(view), view.node)
    reads = Counter(
        node.attr for method in view.methods for node in self_attributes(method) if isinstance(node.ctx, ast.Load)
    )
    for second in applications(view):
        assert second.operand is not None
        before = value_before(second.operand, view.semantics)
        first = applied(before, view.semantics) if before is not None else None
        if first is None:
            continue
        last, start = opened(first, view.semantics)[-1], opened(second, view.semantics)[0]
        if last is not None and start is not None:
            once = all(_runs_once(layer, reads, view.semantics) for layer in (first, second))
            yield Neighbours(last, start, once and _is_only_use(second.operand, view.semantics))


def value_before(operand: ast.expr, semantics: Semantics) -> ast.expr | None:
    """The expression that an operand is, through one variable; None where several can reach it."""
    if not isinstance(operand, ast.Name):
        return operand
    definitions = semantics.definitions(operand)
    if len(definitions) != 1 or definitions[0].kind is not Binding.ASSIGNMENT or definitions[0].path:
        return None
    return definitions[0].value


def _is_only_use(operand: ast.expr, semantics: Semantics) -> bool:
    """Whether nothing else than this operand reads its value."""
    function = enclosing_function(operand)
    if not isinstance(operand, ast.Name) or function is None:
        return not isinstance(operand, ast.Name)
    (definition,) = semantics.definitions(operand)
    return not any(
        isinstance(node, ast.Name)
        and node.id == operand.id
        and node is not operand
        and isinstance(node.ctx, ast.Load)
        and definition in semantics.definitions(node)
        for node in nodes_within(function, ast.Name)
    )


def _runs_once(layer: Applied, reads: Counter[str], semantics: Semantics) -> bool:
    """Whether the class reads the attribute that holds a layer only where this call runs it."""
    if layer.kind is None:
        return True
    function = layer.node.func if isinstance(layer.node, ast.Call) else None
    if not isinstance(function, ast.Attribute) or semantics.module.reads_attribute(function.attr, of_others=True):
        return False
    return reads[function.attr] == 1
