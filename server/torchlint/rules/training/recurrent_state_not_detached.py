from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

from torchlint.fixes.editor import Editor
from torchlint.frozen import dataclass
from torchlint.idioms.training.frameworks import Duty, owned_duties
from torchlint.idioms.training.gradient_graph import loss_of
from torchlint.idioms.training.graph_sources import Sources, sources_of
from torchlint.idioms.training.loops import LoopNode, loops_around, runs_each_time
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_method
from torchlint.semantics.classes import self_attributes
from torchlint.semantics.index import index_of
from torchlint.semantics.nodes import (
    contains,
    element_of,
    enclosing_class,
    enclosing_function,
    nodes_within,
    statement_of,
)
from torchlint.semantics.scopes import AttributeWrite, Binding, Definition, FunctionNode
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of, part_of

_CELLS = ("torch.nn.LSTMCell",)
_PAIRS = ("torch.nn.LSTM",)
#: How many classes of one model are looked through.
_MOST_PARTS = 8
_SINGLE = ("torch.nn.GRU", "torch.nn.RNN", "torch.nn.GRUCell", "torch.nn.RNNCell")


@dataclass(frozen=True, eq=False)
class _Pass:
    """A backward pass as one loop sees it: ``place`` is the call in the body of the loop that is, or leads to, it."""

    semantics: Semantics
    backward: ast.Call
    place: ast.Call
    loop: LoopNode

    @cached_property
    def loss(self) -> Sources:
        """What the pass goes through."""
        loss = loss_of(self.semantics, self.backward)
        entered = None if self.place is self.backward else self.place
        return sources_of(self.semantics, loss, entered=entered) if loss is not None else Sources()


class RecurrentStateNotDetached(Rule):
    """## What it does

    Reports a hidden state that is carried from one iteration to the next with its autograd graph, in a loop that
    backpropagates in each iteration.

    ## Why is this bad?

    The loss of the second batch depends on the state, and through it on the graph of the first batch, whose memory
    `backward()` has freed: "Trying to backward through the graph a second time". With `retain_graph=True` each backward
    pass goes through all batches so far, slower with every step, until the changed weights make it raise.

    ## Example

    ```python
    import torch


    def train(loader, head: torch.nn.Module, criterion, optimizer):
        rnn = torch.nn.GRU(10, 20)
        hidden = None
        for inputs, targets in loader:
            optimizer.zero_grad()
            output, hidden = rnn(inputs, hidden)
            loss = criterion(head(output), targets)
            loss.backward()
            optimizer.step()
    ```

    ## Use instead

    ```python
    import torch


    def train(loader, head: torch.nn.Module, criterion, optimizer):
        rnn = torch.nn.GRU(10, 20)
        hidden = None
        for inputs, targets in loader:
            optimizer.zero_grad()
            output, hidden = rnn(inputs, hidden)
            loss = criterion(head(output), targets)
            loss.backward()
            hidden = hidden.detach()
            optimizer.step()
    ```

    ## Exceptions

    States that are detached, repackaged or set anew for each batch, loops over time steps with the backward pass behind
    them, rollouts under `torch.no_grad()`, and models whose code cannot be seen.

    ## References

    - [Tensor.detach](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.detach.html)
    - [Word language model, `repackage_hidden`](https://github.com/pytorch/examples/tree/main/word_language_model)
    """

    code = "TL218"
    name = "recurrent-state-not-detached"
    level = Level.ERROR
    fix = FixKind.UNSAFE
    summary = "The second backward pass goes into the graph of the first, which is freed."

    @on_method("backward")
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        function = enclosing_function(call)
        if Duty.STEPS in owned_duties(semantics, function):
            return
        if _is_retained(call) and not semantics.module.mentions_call("step"):
            return  # gradients that are only looked at, layer after layer
        for place in (call, *(semantics.callers(function) if function is not None else ())):
            for loop in loops_around(place):
                if runs_each_time(place, loop) and (place is call or runs_each_time(call, function)):
                    found = _Pass(semantics, call, place, loop)
                    yield from self._carried_names(semantics, found)
                    yield from self._carried_attributes(semantics, found)

    def _carried_names(self, semantics: Semantics, found: _Pass) -> Iterator[Diagnosis]:
        carried: dict[ast.expr, list[tuple[Definition, Sources]]] = {}
        for definition in _assigned_in(semantics, found.loop):
            if definition.value is None:
                continue
            sources = sources_of(semantics, definition.value, definition.path)
            if not sources.calls:
                continue
            if any(_is_carried(semantics, use, definition, found) for use in sources.uses if isinstance(use, ast.Name)):
                carried.setdefault(definition.value, []).append((definition, sources))
        for value, states in carried.items():
            shown = [definition.name for definition, _ in states]
            fix = self._fix(semantics, found, [definition for definition, _ in states])
            yield self._diagnosis(value, shown, found, fix)

    def _carried_attributes(self, semantics: Semantics, found: _Pass) -> Iterator[Diagnosis]:
        """States that a module keeps on itself: ``out, self.hidden = self.rnn(x, self.hidden)`` in ``forward``."""
        told: set[ast.expr] = set()
        for call in found.loss.calls:
            kind = semantics.kind(call.func)
            if kind is None or kind.class_node is None or not contains(found.loop, call):
                continue
            for owner in _with_parts(semantics, kind.class_node):
                forward = semantics.find_method(owner, "forward")
                for write, value, _ in _kept_states(semantics, owner, forward, found.loop) if forward else ():
                    if value not in told:
                        told.add(value)
                        yield self._diagnosis(value, [f"self.{write.name}"], found, [])
        method = enclosing_function(found.backward)
        trainer = enclosing_class(method) if method is not None else None
        if method is None or trainer is None or semantics.is_module_class(trainer):
            return
        for write, value, reads in _kept_states(semantics, trainer, method, found.loop):
            if any(read in found.loss.uses for read in reads):  # what an object that trains keeps from step to step
                name = f"{write.base}.{write.name}"
                line = _detached(semantics, value, write.path, name)
                fixes = [_inserting(found.backward, [line])] if line is not None else []
                yield self._diagnosis(value, [name], found, fixes)

    def _diagnosis(self, value: ast.expr, names: list[str], found: _Pass, fixes: list[FixPlan]) -> Diagnosis:
        shown = " and ".join(f"`{name}`" for name in dict.fromkeys(names))
        verb, have = ("carry", "have") if len(names) > 1 else ("carries", "has")
        again = (
            "each backward pass goes through all iterations before it"
            if _is_retained(found.backward)
            else "the next `backward()` would go into a graph that is freed"
        )
        message = f"{shown} {verb} the autograd graph of this iteration into the next, where {again}."
        related: list[tuple[ast.AST, str]] = [
            (found.backward, f"backpropagated in each iteration; what {shown} {have} been made of is freed here"),
            (found.loop, "in each iteration of this loop"),
        ]
        return self.found(value, message, related=related, fixes=fixes)

    def _fix(self, semantics: Semantics, found: _Pass, states: list[Definition]) -> list[FixPlan]:
        lines = [
            _detached(semantics, state.value, state.path, state.name) for state in states if state.value is not None
        ]
        text = [line for line in lines if line is not None]
        return [_inserting(found.place, text)] if len(text) == len(states) else []


def _is_retained(backward: ast.Call) -> bool:
    return any(item.arg == "retain_graph" for item in backward.keywords)


def _assigned_in(semantics: Semantics, loop: LoopNode) -> Iterator[Definition]:
    """The bindings of names in a loop that take (an element of) the value of a call that is given the same name."""
    function = enclosing_function(loop)
    if function is not None:
        scopes = [index_of(part_of(function)).scopes[function]]
    else:
        scopes = [index_of(part).top for part in semantics.module.own_code()]
    for scope in scopes:
        for definitions in scope.definitions.values():
            for definition in definitions:
                is_called = definition.kind is Binding.ASSIGNMENT and isinstance(definition.value, ast.Call)
                if is_called and contains(loop, definition.node) and _reads_itself(definition):
                    yield definition


def _reads_itself(definition: Definition) -> bool:
    """``h`` in ``out, h = rnn(x, h)``."""
    names = nodes_within(definition.value, ast.Name) if definition.value is not None else ()
    return any(isinstance(name, ast.Name) and name.id == definition.name for name in names)


def _is_carried(semantics: Semantics, use: ast.Name, definition: Definition, found: _Pass) -> bool:
    """Whether a use on which both a binding and the loss depend reads that very binding of the iteration before."""
    if use.id != definition.name or definition.value is None or not contains(definition.value, use):
        return False
    reaching = semantics.definitions(use)
    if definition not in reaching:
        return False
    others = [other for other in reaching if other is not definition]
    if any(contains(found.loop, other.node) for other in others):
        return False  # set anew in the loop, now and then
    return use in found.loss.uses


def _with_parts(semantics: Semantics, owner: ast.ClassDef) -> list[ast.ClassDef]:
    """A module class and the classes of the file whose objects its constructor builds, and so on."""
    found = [owner]
    for one in found:
        constructor = semantics.find_method(one, "__init__")
        for call in nodes_within(constructor, ast.Call) if constructor is not None else ():
            part = semantics.local_class(call.func) if isinstance(call, ast.Call) else None
            if part is not None and part not in found and len(found) < _MOST_PARTS:
                found.append(part)
    return found


def _kept_states(
    semantics: Semantics, owner: ast.ClassDef, method: FunctionNode, loop: LoopNode
) -> Iterator[tuple[AttributeWrite, ast.expr, list[ast.Attribute]]]:
    """Where a method sets attributes to what it made of them, with the value and where that reads them; nothing in the
    loop resets them."""
    for name in sorted({attribute.attr for attribute in self_attributes(method)}):
        writes = semantics.module.attribute_writes(owner, name)
        states = [write for write in writes if enclosing_function(write.statement) is method]
        if enclosing_function(loop) is method:
            states = [write for write in states if contains(loop, write.statement)]
        resets = {getattr(enclosing_function(write.statement), "name", "") for write in writes} - {method.name}
        if len(states) != 1 or states[0].value is None or semantics.module.writes_attribute_of_others(name):
            continue
        sources = sources_of(semantics, states[0].value, states[0].path)
        reads = [use for use in sources.uses if isinstance(use, ast.Attribute) and use.attr == name]
        if not sources.calls or not reads or _is_changed_otherwise(semantics, owner, name):
            continue
        if not _may_run_in(semantics, resets - {"__init__"}, loop) and not _may_run_in(semantics, resets, method):
            yield states[0], states[0].value, reads


def _may_run_in(semantics: Semantics, methods: set[str], place: ast.AST) -> bool:
    """Whether a loop or function may call one of these methods, by itself or through functions of the file that do."""
    names = [*methods]
    for name in names:
        for call in semantics.module.calls_of(name):
            if contains(place, call):
                return True
            caller = getattr(enclosing_function(call), "name", "__init__")
            if caller not in names and caller != "__init__":
                names.append(caller)
    return False


def _is_changed_otherwise(semantics: Semantics, owner: ast.ClassDef, name: str) -> bool:
    """Whether a method of the class may detach an attribute in place, or set it in another way."""
    module = semantics.module
    if module.mentions_call("setattr") or module.mentions_call("detach_"):
        return True
    reads = (item for method in module.methods(owner) for item in self_attributes(method) if item.attr == name)
    return any(isinstance(parent := parent_of(read), ast.Attribute) and parent.attr == "data" for read in reads)


def _detached(
    semantics: Semantics, call: ast.expr, path: tuple[int | None, ...], name: str, depth: int = 0
) -> str | None:
    """The statement that cuts (the element at ``path`` of) a state from its graph; None where it is not known what the
    state is."""
    kind = semantics.kind(call.func) if isinstance(call, ast.Call) else None
    origin = kind.origin if kind is not None else ""
    if origin in _SINGLE or (origin in _PAIRS and len(path) == 2) or (origin in _CELLS and path):
        return f"{name} = {name}.detach()"
    if origin in _PAIRS or origin in _CELLS:
        return f"{name} = tuple(part.detach() for part in {name})"
    forward = semantics.find_method(kind.class_node, "forward") if kind is not None and kind.class_node else None
    returned = semantics.returned_values(forward) if forward is not None else ()
    if len(returned) != 1 or not path or depth > _MOST_PARTS:
        return None
    state = element_of(returned[0], path[:1])  # what ``forward`` gives is what a layer in it gave
    made = semantics.definitions(state) if isinstance(state, ast.Name) else ()
    if len(made) != 1 or made[0].value is None:
        return None
    return _detached(semantics, made[0].value, (*made[0].path, *path[1:]), name, depth + 1)


def _inserting(place: ast.Call, lines: list[str]) -> FixPlan:
    return FixPlan(f"Insert `{lines[0]}`", "unsafe", lambda edit: _insert(edit, place, lines))


def _insert(edit: Editor, place: ast.Call, lines: list[str]) -> None:
    statement = statement_of(place)
    for line in lines:
        edit.insert_statement_after(statement, line)
