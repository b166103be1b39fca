from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.idioms.surroundings.called_code import function_run_by
from torchlint.idioms.training.replicas import is_ddp, is_in_no_sync
from torchlint.rules.base import Diagnosis, Level, Rule, on_method
from torchlint.semantics.kinds import What
from torchlint.semantics.nodes import enclosing_function, nodes_within
from torchlint.semantics.scopes import dotted
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of, part_of

#: Methods that run no model.
_NO_FORWARD = frozenset("backward scale item detach mean sum div div_ float update append step clone".split())
_SHARDED = ("FullyShardedDataParallel", "FSDP", "fully_shard")


class NoSyncAroundBackwardOnly(Rule):
    """## What it does

    Reports `with model.no_sync():` around the backward pass alone, with the forward pass `model(x)` before it.

    ## Why is this bad?

    `DistributedDataParallel` decides in the *forward* pass whether the next backward pass reduces gradients. Around the
    backward pass alone `no_sync()` changes nothing: the gradients are reduced in each step, which costs the time that
    the context was to save.

    ## Example

    ```python
    from torch.nn.parallel import DistributedDataParallel

    model = DistributedDataParallel(net)
    for x, y in micro_batches:
        loss = criterion(model(x), y)
        with model.no_sync():
            loss.backward()
    ```

    ## Use instead

    ```python
    from torch.nn.parallel import DistributedDataParallel

    model = DistributedDataParallel(net)
    for x, y in micro_batches:
        with model.no_sync():
            loss = criterion(model(x), y)
            loss.backward()
    ```

    ## Exceptions

    A context with anything in it that may run the model, a model that may be sharded (`FullyShardedDataParallel` looks
    at the context in the backward pass), and a forward pass that the function does not show.

    ## References

    - [DistributedDataParallel.no_sync](https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html#torch.nn.parallel.DistributedDataParallel.no_sync)
    """

    code = "TL804"
    name = "no-sync-around-backward-only"
    level = Level.WARNING
    summary = "`no_sync()` does nothing where the forward pass is outside of it."

    @on_method("no_sync")
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        model = call.args[0] if call.args else call.func.value if isinstance(call.func, ast.Attribute) else None
        path = dotted(model)
        if path is None or _may_be_sharded(model, semantics):
            return
        for block in _blocks(call, unit):
            forward = _forward_before(block, path, unit)
            if forward is None or not _only_backward(block, path, semantics):
                continue
            message = f"`no_sync()` does nothing here: the forward pass of `{path}` stands outside of it."
            yield self.found(call, message, related=[(forward, "this decides that gradients are reduced")])
            return


def _may_be_sharded(model: ast.expr | None, semantics: Semantics) -> bool:
    if model is not None and is_ddp(semantics, model):
        return False
    kind = semantics.kind(model)
    if kind is not None and kind.class_node is not None:
        return True  # a class of the file with a context of its own
    return any(semantics.module.mentions_call(name) for name in _SHARDED)


def _blocks(call: ast.Call, unit: Unit) -> Iterator[ast.With]:
    """The ``with`` statements that enter what a call makes, directly or through a name or a choice."""
    made: ast.AST = call
    holder = parent_of(made)
    while isinstance(holder, ast.IfExp) and made is not holder.test:
        made, holder = holder, parent_of(holder)
    match holder:
        case ast.withitem():
            block = parent_of(holder)
            if isinstance(block, ast.With):
                yield block
        case ast.Assign(targets=[ast.Name(id=name)]):
            for block in _around(call, unit, ast.With):
                assert isinstance(block, ast.With)
                for item in block.items:
                    entered = item.context_expr
                    if isinstance(entered, ast.Name) and entered.id == name:
                        yield block


def _around(node: ast.AST, unit: Unit, node_type: type[ast.AST]) -> Iterator[ast.AST]:
    function = enclosing_function(node)
    return nodes_within(function, node_type) if function is not None else iter(unit.all(node_type))


def _forward_before(block: ast.With, path: str, unit: Unit) -> ast.Call | None:
    """The last forward pass of a model before a block, unless that one is inside ``no_sync()`` too."""
    last: ast.Call | None = None
    for call in _around(block, unit, ast.Call):
        assert isinstance(call, ast.Call)
        if part_of(call) is part_of(block) and call.lineno >= block.lineno:
            break
        if dotted(call.func) == path or _calls_inside(call, path, unit.semantics):
            last = call
    return last if last is not None and not is_in_no_sync(last) else None


def _calls_inside(call: ast.Call, path: str, semantics: Semantics) -> bool:
    """Whether a method of the same object runs the forward pass (``loss = self.compute_loss(batch)``)."""
    if not path.startswith("self.") or not (dotted(call.func) or "").startswith("self."):
        return False
    method = function_run_by(call.func, semantics)
    inner = nodes_within(method, ast.Call) if method is not None else ()
    return any(isinstance(item, ast.Call) and dotted(item.func) == path and not is_in_no_sync(item) for item in inner)


def _only_backward(block: ast.With, path: str, semantics: Semantics) -> bool:
    """Whether a block runs a backward pass and certainly no forward pass."""
    backward = False
    for statement in block.body:
        for call in nodes_within(statement, ast.Call):
            assert isinstance(call, ast.Call)
            written = call.func.attr if isinstance(call.func, ast.Attribute) else ""
            backward = backward or written == "backward"
            if dotted(call.func) == path or not _runs_no_model(call, written, semantics):
                return False
    return backward


def _runs_no_model(call: ast.Call, written: str, semantics: Semantics) -> bool:
    if written in _NO_FORWARD or semantics.name(call.func).startswith("torch."):
        return True
    kind = semantics.kind(call.func)
    return kind is not None and kind.what is What.LOSS
