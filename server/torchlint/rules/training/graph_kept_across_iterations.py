from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import partial

from torchlint.finding import Severity
from torchlint.fixes.editor import Editor
from torchlint.idioms.training.gradient_graph import backpropagated, carried_names, is_foreign, leads_to_backward
from torchlint.idioms.training.kept_values import Kept, kept_in, kept_on_self
from torchlint.idioms.training.loops import LoopNode, loops_around
from torchlint.idioms.training.loss_holders import holder_kept, holders_of, parts_kept
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_method
from torchlint.semantics.nodes import contains, enclosing_function, nodes_within
from torchlint.semantics.scopes import Definition, FunctionNode, dotted
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

_NO_GRAD = ("torch.no_grad", "torch.inference_mode")


class GraphKeptAcrossIterations(Rule):
    """## What it does

    Reports a loss that is added to a running total or a container while it still carries its autograd graph: by itself,
    by a method of a class of the file (`meter.update(loss)`), or with what it came in (`outputs.append(output)` after
    `output["loss"].backward()`).

    ## Why is this bad?

    `total += loss` makes `total` a tensor whose history reaches back to the first batch: each iteration adds nodes that
    cannot be freed until `total` is. Memory grows over the epoch, and with `retain_graph=True` it grows by all
    activations of each batch. Only the number is wanted.

    ## Example

    ```python
    import torch


    def train(model: torch.nn.Module, loader, criterion, optimizer):
        total = 0.0
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = criterion(model(inputs), targets)
            loss.backward()
            optimizer.step()
            total += loss
        print(total / len(loader))
    ```

    ## Use instead

    ```python
    import torch


    def train(model: torch.nn.Module, loader, criterion, optimizer):
        total = 0.0
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = criterion(model(inputs), targets)
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(total / len(loader))
    ```

    ## Exceptions

    Values cut from the graph (`.item()`, `.detach()`, `float(...)`), totals that are backpropagated later, totals of
    one iteration, and sums under `torch.no_grad()`. `.item()` waits for the GPU; `.detach()` does not and keeps a
    tensor.

    ## References

    - [My model reports "cuda runtime error(2): out of memory"](https://docs.pytorch.org/docs/stable/notes/faq.html)
    - [Tensor.detach](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.detach.html)
    """

    code = "TL206"
    name = "graph-kept-across-iterations"
    level = Level.WARNING
    fix = FixKind.UNSAFE
    summary = "The history of every batch is kept alive by a total that needs only numbers."

    @on_method("backward")
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        if is_foreign(semantics, call):
            return
        losses = backpropagated(semantics, call)
        if loops_around(call):
            yield from self._kept(semantics, call, losses, call)
            return
        function = enclosing_function(call)
        if function is None:
            return
        places = _returned_places(semantics, function, losses)
        for caller in semantics.callers(function) if places else ():
            yield from self._kept(semantics, caller, _bound_by(caller, places, semantics), call)
        yield from self._kept_on_self(semantics, function, losses, call)

    def _kept_on_self(
        self, semantics: Semantics, function: FunctionNode, losses: dict[Definition, bool], backward: ast.Call
    ) -> Iterator[Diagnosis]:
        """What a method that trains on one batch keeps on its object: ``self.losses.append(loss)``."""
        for kept in kept_on_self(semantics, function):
            carriers = [
                name
                for name in carried_names(kept.value)
                if not losses.keys().isdisjoint(semantics.definitions(name))
                and not _is_cut_between(name, backward, kept.statement)
            ]
            if carriers and not _is_without_grad(semantics, kept):
                loops = (loop for caller in semantics.callers(function) for loop in loops_around(caller))
                fix = FixPlan("Add `.detach()`", "unsafe", partial(_cut, carriers=carriers, cut=".detach()"))
                reset = kept.name in _reset_elsewhere(semantics, kept, function)
                yield self._diagnosis(kept, ast.unparse(carriers[0]), [fix], backward, next(loops, None), reset)

    def _kept(
        self, semantics: Semantics, place: ast.Call, losses: dict[Definition, bool], backward: ast.Call
    ) -> Iterator[Diagnosis]:
        """What the loops around ``place``, the backward pass or a call of the function that holds it, keep."""
        loops = loops_around(place)
        held = holders_of(semantics, backward, loops[-1]) if loops and place is backward else ()
        for kept in _all_kept_in(semantics, loops[-1]) if loops else ():
            direct = place is not backward and kept.value is place
            names = [
                name
                for name in carried_names(kept.value)
                if not losses.keys().isdisjoint(semantics.definitions(name))
                and not _is_cut_between(name, place, kept.statement)
            ]
            parts = list(parts_kept(semantics, kept, held))
            holder = holder_kept(semantics, kept, held)
            loop = next(loop for loop in loops if contains(loop, kept.statement))
            if not (names or parts or holder or direct) or _is_without_grad(semantics, kept):
                continue
            outlives, reset = _life(semantics, kept, loop)
            if not outlives or leads_to_backward(semantics, kept.name, enclosing_function(loop)):
                continue
            if holder is not None:
                yield self._diagnosis(kept, holder.text, [], backward, loop, reset)
                continue
            carriers = [*names, *parts] or [place]
            single = not direct and all(losses.get(d, False) for n in names for d in semantics.definitions(n))
            cut = ".item()" if single and _is_used_as_number(semantics, kept) else ".detach()"
            fix = FixPlan(f"Add `{cut}`", "unsafe", partial(_cut, carriers=carriers, cut=cut))
            yield self._diagnosis(kept, ast.unparse(carriers[0]), [fix], backward, loop, reset)

    def _diagnosis(
        self, kept: Kept, shown: str, fixes: Sequence[FixPlan], backward: ast.Call, loop: LoopNode | None, reset: bool
    ) -> Diagnosis:
        until = " until it is reset" if reset else ""
        retained = any(item.arg in ("retain_graph", "create_graph") for item in backward.keywords)
        freed = (
            "with all activations" if retained else "of which `backward()` has freed the activations but not the nodes"
        )
        message = f"`{kept.name}` keeps the autograd graph of `{shown}` of every iteration{until}, {freed}."
        related: list[tuple[ast.AST, str]] = [(backward, "backpropagated here")]
        if loop is not None:
            related.append((loop, "in each iteration of this loop"))
        if kept.inner is not None:
            related.append((kept.inner, "kept here"))
        severity = Severity.HINT if reset else None
        return self.found(kept.statement, message, related=related, fixes=fixes, severity=severity)


def _is_cut_between(name: ast.Name, place: ast.AST, statement: ast.stmt) -> bool:
    """Whether what runs after ``place`` and before ``statement`` binds a name to a value without the graph of its old
    one: ``if train: loss.backward(); loss = loss.detach()``. Without the backward pass the graph is still wanted."""
    child, holder = place, parent_of(place)
    while holder is not None and not contains(child, statement):
        for field in ("body", "orelse", "finalbody"):
            block = getattr(holder, field, None)
            if not isinstance(block, list) or child not in block:
                continue
            for later in block[block.index(child) + 1 :]:
                if contains(later, statement):
                    return False
                match later:
                    case ast.Assign(targets=[ast.Name(id=again)], value=value) if again == name.id:
                        return all(carried.id != again for carried in carried_names(value))
        child, holder = holder, parent_of(holder)
    return False


def _reset_elsewhere(semantics: Semantics, kept: Kept, function: FunctionNode) -> Iterator[str]:
    """The name of what is kept, for each method but the constructor that sets it anew."""
    assert isinstance(kept.target, ast.Attribute)
    owner = semantics.class_of_self(kept.target.value)
    for write in semantics.module.attribute_writes(owner, kept.target.attr) if owner is not None else ():
        method = enclosing_function(write.statement)
        if method is not function and getattr(method, "name", "") != "__init__":
            yield kept.name


def _all_kept_in(semantics: Semantics, loop: LoopNode) -> tuple[Kept, ...]:
    """What ``kept_in`` gives, gathered once for all backward passes in the loop."""
    return semantics.module.memo.cached(("kept in", loop), lambda: tuple(kept_in(semantics, loop)), ())


def _life(semantics: Semantics, kept: Kept, loop: LoopNode) -> tuple[bool, bool]:
    """Whether what a value is added to outlives the iteration, and whether the loop sets it anew now and then."""
    reset = False
    for binding in nodes_within(loop, ast.Assign, ast.AnnAssign):
        if binding is kept.statement or kept.name not in _names_bound(binding):
            continue
        if _runs_with(binding, kept.statement, loop):
            return False, False
        reset = True
    if isinstance(kept.target, ast.Attribute):
        return True, reset
    bindings = semantics.bindings(kept.target)
    limited = any(_is_limited(semantics, definition.value) for definition in bindings)
    return not limited and any(not contains(loop, definition.node) for definition in bindings), reset


def _names_bound(binding: ast.AST) -> list[str | None]:
    assert isinstance(binding, ast.Assign | ast.AnnAssign)
    targets = binding.targets if isinstance(binding, ast.Assign) else [binding.target]
    return [dotted(item) for one in targets for item in (one.elts if isinstance(one, ast.Tuple) else [one])]


def _runs_with(binding: ast.AST, statement: ast.stmt, loop: LoopNode) -> bool:
    """Whether a binding runs in every iteration in which the statement does: its block holds the statement."""
    parent = parent_of(binding)
    blocks = (getattr(parent, name, None) for name in ("body", "orelse", "finalbody"))
    block = next((block for block in blocks if isinstance(block, list) and binding in block), [])
    return parent is loop or any(contains(other, statement) for other in block)


def _is_limited(semantics: Semantics, value: ast.expr | None) -> bool:
    """``deque(maxlen=100)``: the oldest graphs are dropped."""
    return semantics.is_call_to(value, "collections.deque")


def _is_without_grad(semantics: Semantics, kept: Kept) -> bool:
    """Whether a sum is made under ``no_grad``, so that it has no graph (what is stored keeps its own)."""
    current = parent_of(kept.statement)
    while current is not None and not kept.stored:
        if isinstance(current, ast.With) and any(
            semantics.is_call_to(item.context_expr, *_NO_GRAD) for item in current.items
        ):
            return True
        current = parent_of(current)
    return False


def _is_used_as_number(semantics: Semantics, kept: Kept) -> bool:
    """Whether each use of a total is one that a Python number serves as well."""
    if not isinstance(kept.target, ast.Name):
        return False
    function = enclosing_function(kept.target)
    bindings = set(semantics.bindings(kept.target))
    if function is None or any(isinstance(item.node, ast.arg) for item in bindings):
        return False
    for name in nodes_within(function, ast.Name):
        assert isinstance(name, ast.Name)
        if name.id == kept.name and isinstance(name.ctx, ast.Load) and not _takes_number(name, kept):
            return False
    return True


def _takes_number(name: ast.Name, kept: Kept) -> bool:
    parent = parent_of(name)
    match parent:
        case ast.BinOp() | ast.FormattedValue() | ast.Compare():
            return not kept.stored
        case ast.Call(func=ast.Name(id=called)):
            return called in ("print", "float", "sum", "len", "round", "min", "max")
        case ast.Attribute(attr="append"):
            return kept.stored
        case ast.Call(func=ast.Attribute(attr=called, value=ast.Name(id="np" | "numpy"))):
            return called in ("mean", "sum", "average", "std", "array")
        case _:
            return False


def _returned_places(
    semantics: Semantics, function: FunctionNode, losses: dict[Definition, bool]
) -> dict[tuple[int, ...], bool]:
    """Where a function returns a backpropagated loss, as paths into what it returns; empty unless all returns do."""
    found: set[tuple[int, ...]] | None = None
    for value in semantics.returned_values(function):
        elements = enumerate(value.elts) if isinstance(value, ast.Tuple) else ((None, value),)
        here: set[tuple[int, ...]] = {
            (position,) if position is not None else ()
            for position, element in elements
            if isinstance(element, ast.Name) and not losses.keys().isdisjoint(semantics.definitions(element))
        }
        found = here if found is None else found & here
    return dict.fromkeys(found or (), False)


def _bound_by(call: ast.Call, places: dict[tuple[int, ...], bool], semantics: Semantics) -> dict[Definition, bool]:
    """The bindings by which a caller holds the returned losses."""
    statement = parent_of(call)
    targets = statement.targets if isinstance(statement, ast.Assign) and statement.value is call else []
    return {
        definition: False
        for target in targets
        for name in nodes_within(target, ast.Name)
        if isinstance(name, ast.Name)
        for definition in semantics.bindings(name)
        if definition.value is call and definition.path in places
    }


def _cut(edit: Editor, carriers: Sequence[ast.expr], cut: str) -> None:
    for carrier in carriers:
        edit.insert_after(carrier, cut)
