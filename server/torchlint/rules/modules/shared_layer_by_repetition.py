from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchlint.idioms.modules.module_state import State, state_of
from torchlint.idioms.surroundings.stated import comments_at, is_stated
from torchlint.regex import regex
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_call, on_method, on_node
from torchlint.rules.modules._repeated_layers import deepcopy, product_fix
from torchlint.semantics.inference import enclosing_function_of_parameter
from torchlint.semantics.kinds import What
from torchlint.semantics.nodes import contains, enclosing_class, enclosing_function, nodes_within
from torchlint.semantics.scopes import Binding
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

_CONTAINERS = ("torch.nn.ModuleList", "torch.nn.Sequential", "torch.nn.ModuleDict", "torch.nn.ParameterList")
#: What says that the weights are shared on purpose.
_SHARED = regex(
    r"\b(?:re-?us|recursi|universal|albert|same (?:layer|weight|module|block|param))|shar(?:e|ing)"
    r"|(?:\b|_)(?:un)?ti(?:ed?|ying)(?:\b|_)",
    re.IGNORECASE,
)


_Comprehension = ast.ListComp | ast.GeneratorExp | ast.DictComp


class SharedLayerByRepetition(Rule):
    """## What it does

    Reports one layer object that is put several times into an `nn.ModuleList`, `nn.ModuleDict`, `nn.Sequential` or
    `nn.ParameterList`: `[layer] * n`, a comprehension over one instance, the same instance appended in a loop.

    ## Why is this bad?

    Multiplying a list copies references. The network looks `n` layers deep but has the weights of one, used `n` times,
    and the state dict holds the same tensors under `n` names.

    ## Example

    ```python
    import torch.nn as nn


    class Encoder(nn.Module):
        def __init__(self, width, depth):
            super().__init__()
            self.blocks = nn.ModuleList([nn.Linear(width, width)] * depth)
    ```

    ## Use instead

    ```python
    import torch.nn as nn


    class Encoder(nn.Module):
        def __init__(self, width, depth):
            super().__init__()
            self.blocks = nn.ModuleList([nn.Linear(width, width) for _ in range(depth)])
    ```

    ## Exceptions

    Layers that keep nothing (`nn.ReLU`, `nn.Dropout`) may be shared. So may weights that the author says are shared: a
    comment, a docstring, a flag or a name with "shared" or "tied" in it.

    ## References

    - [torch.nn.ModuleList](https://docs.pytorch.org/docs/stable/generated/torch.nn.ModuleList.html)
    - [Common Sequence Operations](https://docs.python.org/3/library/stdtypes.html#common-sequence-operations), note 2
    """

    code = "TL110"
    name = "shared-layer-by-repetition"
    level = Level.ERROR
    fix = FixKind.UNSAFE
    summary = "One layer several times in a container: a deep network with the weights of one layer."

    @on_call(*_CONTAINERS)
    def check_container(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        for argument in call.args:
            given = _unstarred(argument)
            if given is argument and unit.semantics.is_named(call.func, "torch.nn.Sequential"):
                continue
            if _may_repeat(given, unit):
                yield from self._check_elements(unit.semantics.value_of(given), given, call, unit)

    def _check_elements(
        self, value: ast.expr | None, given: ast.expr, call: ast.Call | ast.AugAssign, unit: Unit
    ) -> Iterator[Diagnosis]:
        match value:
            case ast.BinOp(op=ast.Mult()):
                yield from self._check_product(value, call, unit)
            case ast.BinOp(op=ast.Add(), left=left, right=right):
                yield from self._check_elements(left, given, call, unit)
                yield from self._check_elements(right, given, call, unit)
            case ast.List(elts=elements) | ast.Tuple(elts=elements):
                for element in elements:
                    if isinstance(element, ast.Starred):
                        inner = unit.semantics.value_of(element.value)
                        yield from self._check_elements(inner, element.value, call, unit)
            case ast.ListComp(elt=element) | ast.GeneratorExp(elt=element) | ast.DictComp(value=element):
                yield from self._check_comprehension(value, element, call, unit)
            case _:
                pass

    def _check_product(self, product: ast.BinOp, call: ast.Call | ast.AugAssign, unit: Unit) -> Iterator[Diagnosis]:
        display, count = product.left, product.right
        for side, other in ((product.left, product.right), (product.right, product.left)):
            if isinstance(unit.semantics.value_of(side), ast.List | ast.Tuple):
                display, count = unit.semantics.value_of(side) or side, other
        if not isinstance(display, ast.List | ast.Tuple) or unit.semantics.literal(count) in (0, 1):
            return
        shared = [element for element in display.elts if _keeps_weights(element, unit.semantics)]
        if not shared or _is_meant(product, shared, call, unit):
            return
        plain = display in (product.left, product.right) and not any(
            isinstance(element, ast.Starred) for element in display.elts
        )
        fixes = [product_fix(product, display, count)] if isinstance(display, ast.List) and plain else []
        yield self.found(
            product,
            f"`{_shown(product)}` repeats one object: all {_count(count)} are the same {_noun(shared)} with the same"
            " weights.",
            related=[(shared[0], "the one that is repeated")] if parent_of(shared[0]) is not display else [],
            fixes=fixes,
        )

    def _check_comprehension(
        self, comprehension: _Comprehension, element: ast.expr, call: ast.Call | ast.AugAssign, unit: Unit
    ) -> Iterator[Diagnosis]:
        if not isinstance(element, ast.Name | ast.Attribute) or not _is_invariant(element, comprehension, unit):
            return
        if unit.semantics.literal(_range_count(comprehension)) in (0, 1):
            return
        if not _keeps_weights(element, unit.semantics) or _is_meant(comprehension, [element], call, unit):
            return
        yield self._one_instance(element, comprehension, unit)

    @on_method("append", "insert")
    def check_append(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        """``layers.append(layer)`` in a loop outside of which ``layer`` is made."""
        assert isinstance(call.func, ast.Attribute)
        if call.args:
            yield from self._check_turns(call.func.value, [call.args[-1]], call, unit)

    @on_method("extend")
    def check_extend(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        """``layers.extend([layer] * n)``, and ``layers.extend([nn.Linear(4, 4), norm])`` in a loop."""
        assert isinstance(call.func, ast.Attribute)
        if len(call.args) == 1:
            yield from self._check_added(call.func.value, call.args[0], call, unit)

    @on_node(ast.AugAssign)
    def check_added(self, statement: ast.AugAssign, unit: Unit) -> Iterator[Diagnosis]:
        """``layers += [layer] * n``, and ``layers += [nn.Linear(4, 4), norm]`` in a loop."""
        if isinstance(statement.op, ast.Add) and isinstance(statement.target, ast.Name | ast.Attribute):
            yield from self._check_added(statement.target, statement.value, statement, unit)

    def _check_added(
        self, receiver: ast.expr, given: ast.expr, place: ast.Call | ast.AugAssign, unit: Unit
    ) -> Iterator[Diagnosis]:
        match given:
            case ast.List(elts=elements) | ast.Tuple(elts=elements):
                yield from self._check_turns(receiver, elements, place, unit)
            case (
                ast.BinOp(op=ast.Mult(), left=ast.List() | ast.Tuple())
                | ast.BinOp(op=ast.Mult(), right=ast.List() | ast.Tuple())
                | ast.ListComp(elt=ast.Name() | ast.Attribute())
                | ast.GeneratorExp(elt=ast.Name() | ast.Attribute())
            ) if _is_for_container(receiver, unit):
                yield from self._check_elements(given, given, place, unit)

    def _check_turns(
        self, receiver: ast.expr, elements: list[ast.expr], place: ast.Call | ast.AugAssign, unit: Unit
    ) -> Iterator[Diagnosis]:
        names = [element for element in elements if isinstance(element, ast.Name)]
        loop = _innermost_loop(place) if names else None
        if loop is None or not _is_for_container(receiver, unit):
            return
        if not isinstance(place, ast.AugAssign) and not _is_invariant(receiver, loop, unit):
            return
        if unit.semantics.literal(_loop_count(loop)) in (0, 1) or _may_stop(loop):
            return
        for element in names:
            if (
                _is_invariant(element, loop, unit)
                and _keeps_weights(element, unit.semantics)
                and not _is_meant(place, [element], place, unit)
            ):
                yield self._one_instance(element, loop, unit)

    def _one_instance(self, element: ast.expr, holder: ast.AST, unit: Unit) -> Diagnosis:
        written = ast.unparse(element)
        related: list[tuple[ast.AST, str]] = []
        if isinstance(element, ast.Name):
            related = [(item.node, "made once, here") for item in unit.semantics.definitions(element)[:1]]
        fix = FixPlan(f"Copy it: `copy.deepcopy({written})`", "unsafe", lambda edit: deepcopy(edit, element))
        where = "comprehension" if isinstance(holder, _Comprehension) else "loop"
        return self.found(
            element,
            f"`{written}` is one object: each turn of the {where} adds the same layer with the same weights.",
            related=related,
            fixes=[fix],
        )


def _keeps_weights(element: ast.expr, semantics: Semantics) -> bool:
    definitions = semantics.definitions(element) if isinstance(element, ast.Name) else ()
    if len(definitions) == 1 and definitions[0].kind is Binding.PARAMETER:
        given = _given_for(definitions[0].node, semantics)
        return bool(given) and all(_keeps_weights(value, semantics) for value in given)
    kind = semantics.kind(element)
    return kind is not None and kind.proven and state_of(kind, semantics) is State.WEIGHTS


def _given_for(parameter: ast.AST, semantics: Semantics) -> list[ast.expr]:
    """The layers that the calls in the file build for a parameter; none where a call gives something else."""
    function = enclosing_function_of_parameter(parameter) if isinstance(parameter, ast.arg) else None
    values = semantics.given_for(parameter, function) if function is not None and isinstance(parameter, ast.arg) else ()
    built = [semantics.value_of(value) for value in values]
    return [value for value in built if isinstance(value, ast.Call)] if len(built) == len(values) else []


def _is_meant(place: ast.AST, shared: list[ast.expr], call: ast.Call | ast.AugAssign, unit: Unit) -> bool:
    """Whether the author says that the weights are shared."""
    if is_stated(call, _SHARED) or (place is not call and is_stated(place, _SHARED)):
        return True
    names = [_SHARED.search(ast.unparse(element)) for element in shared]
    statement: ast.AST | None = call
    while statement is not None and not isinstance(statement, ast.stmt):
        statement = parent_of(statement)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    if isinstance(statement, ast.stmt) and _is_choice(statement):
        return True
    names += [_SHARED.search(ast.unparse(target)) for target in targets]
    definitions = [
        definition
        for element in shared
        if isinstance(element, ast.Name)
        for definition in unit.semantics.definitions(element)
    ]
    if any(names) or any(
        _SHARED.search(text)
        for definition in definitions
        if isinstance(definition.node, ast.stmt)
        for text in comments_at(definition.node)
    ):
        return True
    owner = enclosing_class(enclosing_function(call) or call)
    if owner is None:
        return False
    body = unit.semantics.module.class_facts(owner).body
    docstring = ast.unparse(body[0]) if body and isinstance(body[0], ast.Expr) else ""
    return _SHARED.search(f"{owner.name} {docstring}") is not None


def _is_choice(statement: ast.stmt) -> bool:
    """Whether the other branch of an ``if`` assigns the same: one makes copies, this one shares."""
    if not isinstance(statement, ast.Assign):
        return False
    targets = {ast.unparse(target) for target in statement.targets}
    parent = parent_of(statement)
    while isinstance(parent, ast.If):
        other = parent.orelse if _holds(parent.body, statement) else parent.body
        assigned = {
            ast.unparse(target)
            for one in other
            for node in nodes_within(one, ast.Assign)
            if isinstance(node, ast.Assign)
            for target in node.targets
        }
        if not targets.isdisjoint(assigned):
            return True
        parent = parent_of(parent)
    return False


def _holds(block: list[ast.stmt], statement: ast.stmt) -> bool:
    return any(contains(one, statement) for one in block)


def _is_invariant(expression: ast.expr, loop: ast.AST, unit: Unit) -> bool:
    """Whether an expression is the same object in every turn of a loop or comprehension."""
    if isinstance(expression, ast.Attribute):
        if unit.semantics.class_of_self(expression.value) is None:
            return False
        return not any(
            isinstance(node, ast.Attribute) and node.attr == expression.attr and isinstance(node.ctx, ast.Store)
            for node in nodes_within(loop, ast.Attribute)
        )
    if not isinstance(expression, ast.Name):
        return False
    definitions = unit.semantics.definitions(expression)
    if len(definitions) != 1 or definitions[0].kind not in (Binding.ASSIGNMENT, Binding.PARAMETER):
        return False
    return not any(node is definitions[0].node for node in nodes_within(loop, type(definitions[0].node)))


def _is_for_container(receiver: ast.expr, unit: Unit) -> bool:
    """Whether something is a container of modules, or a list that the same function makes one of."""
    kind = unit.semantics.kind(receiver)
    if kind is None or kind.origin in _CONTAINERS:
        return kind is not None
    function = enclosing_function(receiver)
    if kind.what is not What.LIST or not isinstance(receiver, ast.Name) or function is None:
        return False
    return any(
        isinstance(call, ast.Call)
        and unit.semantics.is_named(call.func, *_CONTAINERS)
        and any(getattr(_unstarred(given), "id", None) == receiver.id for given in call.args)
        for call in nodes_within(function, ast.Call)
    )


def _may_repeat(given: ast.expr, unit: Unit) -> bool:
    """What the form of a value allows, or what a name is bound to: not a parameter, nor an empty list that grows."""
    if not isinstance(given, ast.Name):
        return True
    bound = (item.value for item in unit.semantics.bindings(given) if item.kind is Binding.ASSIGNMENT)
    return any(not isinstance(value, ast.List) or bool(value.elts) for value in bound)


def _unstarred(given: ast.expr) -> ast.expr:
    return given.value if isinstance(given, ast.Starred) else given


def _innermost_loop(node: ast.AST) -> ast.For | None:
    """The ``for`` statement in which a node stands, with no function, branch or other loop between."""
    current = parent_of(node)
    while current is not None and not isinstance(current, ast.For):
        if isinstance(current, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.While | ast.If | ast.ClassDef):
            return None
        current = parent_of(current)
    return current


def _may_stop(loop: ast.For) -> bool:
    return any(True for _ in nodes_within(loop, ast.Break, ast.Return))


def _range_count(comprehension: _Comprehension) -> ast.expr | None:
    return _count_of(comprehension.generators[0].iter)


def _loop_count(loop: ast.For) -> ast.expr | None:
    return _count_of(loop.iter)


def _count_of(iterable: ast.expr) -> ast.expr | None:
    match iterable:
        case ast.Call(func=ast.Name(id="range"), args=[count]):
            return count
        case _:
            return None


def _shown(product: ast.BinOp) -> str:
    written = ast.unparse(product)
    if len(written) <= 60:
        return written
    right = ast.unparse(product.right)[:40]
    return f"[...] * ({right})" if isinstance(product.right, ast.BinOp) else f"[...] * {right}"


def _count(count: ast.expr) -> str:
    return str(count.value) if isinstance(count, ast.Constant) else "elements"


def _noun(shared: list[ast.expr]) -> str:
    return "layer" if len(shared) == 1 else "layers"
