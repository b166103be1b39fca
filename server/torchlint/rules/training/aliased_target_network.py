from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

from torchlint.fixes.editor import Editor
from torchlint.idioms.training.parameter_copies import ParameterCopy, parameter_copies
from torchlint.idioms.values.identity import is_alias, object_of
from torchlint.regex import regex
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_unit
from torchlint.semantics.nodes import contains, element_of, enclosing_function, nodes_within, statement_of
from torchlint.semantics.scopes import last_name
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

#: Names of what is kept as it was.
_SNAPSHOT = regex(r"(^|_)(best|target|ema|old|prev|previous|last|backup|copy|snapshot|saved)(_|$)", re.IGNORECASE)
#: What an assignment without a copy of parameters in the file is looked at for: `best_model = model`.
_NAMES = (ast.Name, ast.Tuple)
_OF_MODULES = frozenset(("train", "eval", "parameters", "zero_grad"))


class AliasedTargetNetwork(Rule):
    """## What it does

    Reports a network that is meant to be a copy of another one but is the same object: `target = net`, after which the
    parameters of `net` are copied or averaged into `target`. Reports `best_model = model` too, where it is to keep the
    model of one epoch while the training goes on.

    ## Why is this bad?

    An assignment copies nothing. The target network changes with every step of the optimizer, the update does nothing,
    and the training chases its own output: what a target network is there to prevent.

    ## Example

    ```python
    import copy

    from torch import nn


    class Agent:
        def __init__(self):
            self.q_net = nn.Linear(4, 2)
            self.target_net = self.q_net

        def update(self):
            self.target_net.load_state_dict(self.q_net.state_dict())
    ```

    ## Use instead

    ```python
    import copy

    from torch import nn


    class Agent:
        def __init__(self):
            self.q_net = nn.Linear(4, 2)
            self.target_net = copy.deepcopy(self.q_net)

        def update(self):
            self.target_net.load_state_dict(self.q_net.state_dict())
    ```

    ## Exceptions

    Weights that are shared by design: two names of one network between which nothing is copied. A network that is
    made anew, or bound to its name at several places.

    ## References

    - [copy.deepcopy](https://docs.python.org/3/library/copy.html#copy.deepcopy)
    - [Reinforcement learning (DQN) tutorial](https://docs.pytorch.org/tutorials/intermediate/reinforcement_q_learning.html)
    """

    code = "TL230"
    name = "aliased-target-network"
    level = Level.ERROR
    fix = FixKind.SAFE
    summary = "The copy is the network itself, so it changes with every step."

    @on_unit()
    def check(self, whole: Unit, unit: Unit) -> Iterator[Diagnosis]:
        assignments = unit.all(ast.Assign)
        copies = bool(assignments) and bool(parameter_copies(unit.semantics))
        for statement in assignments:
            if copies or isinstance(statement.value, _NAMES):
                yield from self._check(statement, unit)

    def _check(self, statement: ast.Assign, unit: Unit) -> Iterator[Diagnosis]:
        for target, value in _bound(statement):
            if not is_alias(value):
                continue
            copied = _copied_into(unit.semantics, target)
            if copied is not None:
                shown, other = ast.unparse(target), ast.unparse(copied.source)
                message = (
                    f"`{shown}` is no copy of `{other}` but the same network: copying its parameters does nothing."
                )
                related = [(copied.node, "the parameters are copied here")]
            else:
                loop = _training_goes_on(target, value, unit)
                if loop is None:
                    continue
                shown, other = ast.unparse(target), ast.unparse(value)
                message = f"`{shown}` is no copy of `{other}` but the same network, and each further step changes it."
                related = [(loop, "training goes on in this loop")]
            if shown == ast.unparse(value):
                continue
            title = f"Copy `{ast.unparse(_named(value))}`"
            yield self.found(value, message, related=related, fixes=[FixPlan(title, "safe", _copying(value))])


def _bound(statement: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The names and attributes that an assignment binds, each with its value."""
    for target in statement.targets:
        if isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple):
            for position, element in enumerate(target.elts):
                value = element_of(statement.value, (position,))
                if isinstance(element, ast.Name | ast.Attribute) and value is not None:
                    yield element, value
        elif isinstance(target, ast.Name | ast.Attribute):
            yield target, statement.value


def _copied_into(semantics: Semantics, target: ast.expr) -> ParameterCopy | None:
    """The first place at which the parameters of the same object are copied into what an assignment binds."""
    for copied in parameter_copies(semantics):
        if not _is_bound_here(semantics, copied.target, target):
            continue
        origin = object_of(semantics, copied.target)
        same = origin is not None and origin is object_of(semantics, copied.source)
        if same and ast.unparse(copied.source) != ast.unparse(copied.target):
            return copied
    return None


def _is_bound_here(semantics: Semantics, use: ast.expr, target: ast.expr) -> bool:
    """Whether a use of a name or attribute denotes what this assignment binds, and nothing else."""
    match use, target:
        case ast.Attribute(attr=one, value=base), ast.Attribute(attr=other) if one == other:
            owner = semantics.class_of_self(base)
            writes = semantics.module.attribute_writes(owner, one) if owner is not None else ()
            return len(writes) == 1 and writes[0].target is target
        case ast.Name(id=one), ast.Name(id=other) if one == other:
            found = semantics.definitions(use)
            return len(found) == 1 and found[0].node is statement_of(target)
        case _:
            return False


def _training_goes_on(target: ast.expr, value: ast.expr, unit: Unit) -> ast.For | ast.While | None:
    """The loop in which a snapshot of a module is taken by assignment while the same module is trained on."""
    name = last_name(target)
    if not isinstance(value, ast.Name) or not _SNAPSHOT.search(name):
        return None
    statement = statement_of(target)
    for loop in _loops_around(statement):
        bound = any(contains(loop, binding.node) for binding in unit.semantics.bindings(value))
        if bound:
            return None
        if _trains(loop, value, unit.semantics) and _is_read_after(loop, target, statement, unit):
            return loop if _is_model(value, unit) else None
    return None


def _loops_around(statement: ast.stmt) -> Iterator[ast.For | ast.While]:
    """The loops around a statement in its function, innermost first; none where the statement ends one."""
    child: ast.AST = statement
    holder = parent_of(statement)
    while holder is not None and not isinstance(holder, ast.FunctionDef | ast.AsyncFunctionDef):
        blocks: list[list[ast.stmt]] = [getattr(holder, name, None) or [] for name in ("body", "orelse")]
        block = next((found for found in blocks if child in found), [])
        if block and isinstance(block[-1], ast.Break | ast.Return | ast.Raise):
            return
        if isinstance(holder, ast.For | ast.While):
            yield holder
        child, holder = holder, parent_of(holder)


def _is_model(value: ast.Name, unit: Unit) -> bool:
    """Whether a name is a module: by its kind, or because methods that only modules have are called on it."""
    kind = unit.semantics.kind(value)
    if kind is not None:
        return kind.is_module
    function = enclosing_function(value)
    if function is not None:
        return not _OF_MODULES.isdisjoint(unit.semantics.methods_called_on(value.id, function))
    return any(
        isinstance(call.func, ast.Attribute)
        and call.func.attr in _OF_MODULES
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id == value.id
        for call in unit.all(ast.Call)
    )


def _trains(loop: ast.For | ast.While, value: ast.Name, semantics: Semantics) -> bool:
    """Whether a loop runs a module and has a backward pass, by itself or in a function of the file that it gives the
    module."""
    runs = backward = False
    for call in nodes_within(loop, ast.Call):
        assert isinstance(call, ast.Call)
        runs = runs or (isinstance(call.func, ast.Name) and call.func.id == value.id)
        backward = backward or getattr(call.func, "attr", "") == "backward"
        given = any(isinstance(item, ast.Name) and item.id == value.id for item in call.args)
        function = semantics.local_function(call.func) if given else None
        if function is not None and any(
            isinstance(inner, ast.Call) and getattr(inner.func, "attr", "") == "backward"
            for inner in nodes_within(function, ast.Call)
        ):
            return True
    return runs and backward


def _is_read_after(loop: ast.AST, target: ast.expr, statement: ast.stmt, unit: Unit) -> bool:
    """Whether what was assigned is read after the loop; an attribute of ``self`` may always be."""
    if not isinstance(target, ast.Name):
        return isinstance(target, ast.Attribute) and unit.semantics.class_of_self(target.value) is not None
    function = enclosing_function(target)
    names = nodes_within(function, ast.Name) if function is not None else unit.all(ast.Name)
    return any(
        isinstance(name, ast.Name)
        and name.id == target.id
        and isinstance(name.ctx, ast.Load)
        and not contains(loop, name)
        and any(found.node is statement for found in unit.semantics.definitions(name))
        for name in names
    )


def _named(value: ast.expr) -> ast.expr:
    """The object that a value names, below its conversions."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        value = value.func.value
    return value


def _copying(value: ast.expr) -> Callable[[Editor], None]:
    return lambda edit: edit.wrap(_named(value), f"{edit.spell('copy.deepcopy')}(", ")")
