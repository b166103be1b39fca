"""One-shot iterators: what makes one, which uses consume it, and whether one use can follow another."""

from __future__ import annotations

import ast

from torchlint import torch_api
from torchlint.idioms.data.loader_use import called_function
from torchlint.semantics.kinds import What
from torchlint.semantics.nodes import argument, enclosing_function, nodes_within, position_of_parameter
from torchlint.semantics.scopes import FunctionNode, last_name
from torchlint.semantics.semantics import Semantics
from torchlint.syntax import parent_of

_BUILTIN_CONSUMERS = frozenset(
    "list tuple set frozenset sorted sum max min any all dict enumerate zip map filter".split()
)
_LAZY = frozenset(("filter", "map", "zip", "enumerate"))
_ITERATORS = frozenset(("parameters", "named_parameters", "buffers", "named_buffers"))
#: Methods of a module that give an iterator over its parts.
_PARTS = frozenset(("children", "modules", "named_children", "named_modules"))
_CONSUMERS = frozenset(
    (
        "torch.nn.utils.clip_grad_norm_",
        "torch.nn.utils.clip_grad_value_",
        "torch.nn.utils.clip_grad_norm",
        "torch.nn.utils.clip_grads_with_norm_",
        "torch.nn.utils.get_total_norm",
        "torch.nn.utils.parameters_to_vector",
        "torch.nn.utils.vector_to_parameters",
        "torch.nn.ParameterList",
        "torch.autograd.grad",
        "itertools.chain",
        "functools.reduce",
        "collections.deque",
        "collections.OrderedDict",
    )
)
_CHAINS = frozenset(("chain", "from_iterable"))
_DEEPEST = 3


def makes_iterator(semantics: Semantics, value: ast.expr) -> bool:
    """Whether an expression makes an iterator whatever its parts are: a generator, ``filter``, ``map``, ``chain``."""
    if isinstance(value, ast.GeneratorExp):
        return True
    if not isinstance(value, ast.Call):
        return False
    function = value.func
    if isinstance(function, ast.Name) and function.id in _LAZY and not semantics.definitions(function):
        return True
    return semantics.is_named(function, "itertools.chain", "itertools.chain.from_iterable")


def iterates_parameters(semantics: Semantics, value: ast.expr) -> bool:
    """Whether an expression makes a one-shot iterator over parameters, buffers or parts of modules."""
    if not semantics.module.mentions_any_call(_ITERATORS | _PARTS) or not _may_iterate(semantics, value):
        return False
    kind = semantics.kind(value)
    if kind is not None and kind.what is What.PARAMETERS:
        return isinstance(value, ast.GeneratorExp | ast.Call) and not _is_overridden(semantics, value)
    if not isinstance(value, ast.Call):
        return False
    if isinstance(value.func, ast.Attribute) and value.func.attr in _PARTS:
        base = semantics.kind(value.func.value)
        return base is not None and base.is_module and not _is_overridden(semantics, value)
    if not makes_iterator(semantics, value):
        function = called_function(semantics, value.func)
        return function is not None and _yields_parameters(function)
    return any(iterates_parameters(semantics, item) for item in value.args)


def _may_iterate(semantics: Semantics, value: ast.expr) -> bool:
    """What the form of an expression allows: asked of every assignment, so that few kinds have to be inferred."""
    match value:
        case ast.GeneratorExp():
            return True
        case ast.Call(func=ast.Name() as function):
            if function.id in _LAZY:
                return True
            if function.id in semantics.module.names_leading_to(_ITERATORS):
                return semantics.local_function(function) is not None
            return function.id in semantics.module.imported_from(_CHAINS)
        case ast.Call(func=ast.Attribute(value=base, attr=name)):
            if name in _ITERATORS or name in _PARTS or name in ("chain", "from_iterable"):
                return True
            if name in semantics.module.names_leading_to(_ITERATORS):
                return True
            # A method of the class; what begins with a capital builds a layer or the like.
            owner = semantics.class_of_self(base) if not name[:1].isupper() else None
            return owner is not None and semantics.find_method(owner, name) is not None
        case _:
            return False


def _yields_parameters(function: FunctionNode) -> bool:
    """Whether a function is a generator that goes through the parameters of a module, and then ends."""
    yields = list(nodes_within(function, ast.Yield, ast.YieldFrom))
    return bool(yields) and all(
        any(isinstance(loop, ast.For) and _goes_through(loop.iter) for loop in _holders(one, function))
        or (isinstance(one, ast.YieldFrom) and _goes_through(one.value))
        for one in yields
    )


def _goes_through(iterable: ast.expr) -> bool:
    return isinstance(iterable, ast.Call) and last_name(iterable.func) in _ITERATORS


def _holders(node: ast.AST, outermost: ast.AST) -> list[ast.AST]:
    """What stands around a node, up to a function."""
    found: list[ast.AST] = []
    holder = parent_of(node)
    while holder is not None and holder is not outermost:
        found.append(holder)
        holder = parent_of(holder)
    return found if not any(isinstance(one, ast.While) for one in found) else []


def _is_overridden(semantics: Semantics, value: ast.expr) -> bool:
    """Whether ``x.parameters()`` calls a method of this file, which may return a list."""
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
        return False
    owner = semantics.class_of_self(value.func.value)
    if owner is None:
        kind = semantics.kind(value.func.value)
        owner = kind.class_node if kind is not None else None
    return owner is not None and semantics.find_method(owner, value.func.attr) is not None


def _consumer_of_alias(semantics: Semantics, alias: ast.Name, statement: ast.Assign, depth: int) -> ast.AST | None:
    """What uses an iterator up under a second name that is always this iterator."""
    function = enclosing_function(statement)
    for name in nodes_within(function, ast.Name) if function is not None else ():
        if isinstance(name, ast.Name) and name.id == alias.id and isinstance(name.ctx, ast.Load):
            definitions = semantics.definitions(name)
            if len(definitions) == 1 and definitions[0].node is statement:
                consumer = consumer_of(semantics, name, depth + 1)
                if consumer is not None:
                    return consumer
    return None


def consumer_of(semantics: Semantics, use: ast.expr, depth: int = 0) -> ast.AST | None:
    """The loop, comprehension or call that uses an iterator up; None for a use that does not, or may not."""
    child: ast.AST = use
    holder = parent_of(use)
    while isinstance(holder, ast.Dict | ast.List | ast.Tuple | ast.keyword):
        child, holder = holder, parent_of(holder)
    match holder:
        case ast.For(iter=source) | ast.AsyncFor(iter=source) if source is use:
            return holder
        case ast.comprehension(iter=source) if source is use:
            return parent_of(holder)
        case ast.Starred():
            return parent_of(holder)
        case ast.Assign(targets=[ast.Name() as alias], value=value) if value is use and depth < _DEEPEST:
            return _consumer_of_alias(semantics, alias, holder, depth)
        case ast.Call() if child is not holder.func and _consumes(semantics, holder, use, child is not use, depth):
            return holder
        case _:
            return None


def _consumes(semantics: Semantics, call: ast.Call, use: ast.expr, nested: bool, depth: int) -> bool:
    """Whether a call uses up an argument (``nested``: it stands in a list, dict or keyword of the call)."""
    function = call.func
    kind = semantics.kind(call)
    if kind is not None and kind.what is What.OPTIMIZER:
        return True
    if isinstance(function, ast.Name) and not semantics.definitions(function):
        return function.id in _BUILTIN_CONSUMERS and not nested
    name = semantics.name(function)
    if name in _CONSUMERS or torch_api.is_optimizer(name):
        return True
    local = called_function(semantics, function) if depth < _DEEPEST else None
    parameter = _parameter_given(local, call, use) if local is not None else None
    return local is not None and parameter is not None and _is_consumed_in(semantics, local, parameter.arg, depth + 1)


def _is_consumed_in(semantics: Semantics, function: FunctionNode, name: str, depth: int) -> bool:
    return any(
        isinstance(node, ast.Name)
        and node.id == name
        and isinstance(node.ctx, ast.Load)
        and consumer_of(semantics, node, depth) is not None
        for node in nodes_within(function, ast.Name)
    )


def used_up_twice_in(semantics: Semantics, call: ast.Call, given: ast.expr) -> tuple[ast.expr, ast.expr] | None:
    """The two uses of the parameter for which a call passes ``given`` that both use it up, in the function of this file
    that is called; the same use twice where it stands in a loop."""
    function = called_function(semantics, call.func)
    parameter = _parameter_given(function, call, given) if function is not None else None
    if function is None or parameter is None or any(map(_is_unknown_decorator, function.decorator_list)):
        return None
    found: list[tuple[ast.Name, ast.AST]] = []
    for name in nodes_within(function, ast.Name):
        if not isinstance(name, ast.Name) or name.id != parameter.arg or enclosing_function(name) is not function:
            continue
        if [definition.node for definition in semantics.definitions(name)] != [parameter]:
            continue
        consumer = consumer_of(semantics, name)
        if consumer is None:
            continue
        earlier = next((use for use, other in found if can_follow(other, consumer, name.id)), None)
        if earlier is not None or repeating_loop(consumer, function) is not None:
            return earlier or name, name
        found.append((name, consumer))
    return None


def _parameter_given(function: FunctionNode, call: ast.Call, given: ast.expr) -> ast.arg | None:
    for parameter in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs):
        if argument(call, position_of_parameter(parameter, function), parameter.arg) is given:
            return parameter
    return None


def _is_unknown_decorator(decorator: ast.expr) -> bool:
    """Whether a decorator may hand the function something else than the call gives: all but those of torch's modes."""
    named = decorator.func if isinstance(decorator, ast.Call) else decorator
    last = last_name(named)
    return last not in ("no_grad", "inference_mode", "enable_grad", "staticmethod", "classmethod")


def can_follow(first: ast.AST, second: ast.AST, name: str | None = None) -> bool:
    """Whether, of two nodes of one function in the order of the source, one path leads over both, and (on the branch
    of the first) does not bind ``name`` to something else in between."""
    ancestors: dict[ast.AST, ast.AST] = {}
    child: ast.AST = second
    holder = parent_of(second)
    while holder is not None:
        ancestors[holder] = child
        child, holder = holder, parent_of(holder)
    child, holder = first, parent_of(first)
    while holder is not None and holder not in ancestors:
        if _ends_path(holder, child) or (name is not None and _binds_later(holder, child, name)):
            return False
        child, holder = holder, parent_of(holder)
    if holder is None:
        return True
    return not _are_exclusive(holder, child, ancestors[holder])


def _ends_path(holder: ast.AST, child: ast.AST) -> bool:
    """Whether the block of ``holder`` that has ``child`` leaves the function or the loop at its end."""
    for name in ("body", "orelse"):
        block = getattr(holder, name, None)
        if isinstance(block, list) and child in block and isinstance(holder, ast.If | ast.Try | ast.With):
            return isinstance(block[-1], ast.Return | ast.Raise | ast.Break | ast.Continue)
    return False


def _binds_later(holder: ast.AST, child: ast.AST, name: str) -> bool:
    """Whether ``child`` or a statement after it in its block binds a name."""
    for field in ("body", "orelse", "finalbody"):
        block = getattr(holder, field, None)
        if isinstance(block, list) and child in block:
            return any(
                isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
                for statement in block[block.index(child) :]
                for node in ast.walk(statement)
            )
    return False


def _are_exclusive(holder: ast.AST, first: ast.AST, second: ast.AST) -> bool:
    match holder:
        case ast.If(body=body, orelse=orelse):
            return (first in body and second in orelse) or (first in orelse and second in body)
        case ast.IfExp(body=one, orelse=other):
            return {first, second} == {one, other}
        case ast.Match():
            return first is not second and isinstance(first, ast.match_case) and isinstance(second, ast.match_case)
        case ast.Try(handlers=handlers):
            return first in handlers and second in handlers and first is not second
        case _:
            return False


def repeating_loop(node: ast.AST, outside: ast.AST) -> ast.For | ast.While | None:
    """The innermost loop around ``node`` that does not hold ``outside`` and comes round to ``node`` again."""
    around = set()
    holder = parent_of(outside)
    while holder is not None:
        around.add(holder)
        holder = parent_of(holder)
    child: ast.AST = node
    holder = parent_of(node)
    while holder is not None and holder not in around:
        if isinstance(holder, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            return None
        if isinstance(holder, ast.For | ast.While):
            if child in holder.body:
                leaves = any(isinstance(item, ast.Break | ast.Return | ast.Raise) for item in holder.body)
                return None if leaves else holder
        elif _ends_path(holder, child):
            return None
        child, holder = holder, parent_of(holder)
    return None
