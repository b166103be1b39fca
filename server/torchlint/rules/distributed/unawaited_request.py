from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchlint import torch_api
from torchlint.idioms.surroundings.expected_errors import is_asserted_to_raise
from torchlint.rules.base import Diagnosis, Level, Rule, on_call
from torchlint.semantics.nodes import argument, enclosing_function, nodes_within
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

_DISTRIBUTED = "torch.distributed."
#: These always return requests.
_ALWAYS = frozenset(("isend", "irecv", "batch_isend_irecv"))
#: These return one with ``async_op=True`` (torch 2.13, torch.distributed).
_COLLECTIVES = frozenset(
    (
        "all_gather all_gather_coalesced all_gather_into_tensor all_reduce all_reduce_coalesced all_to_all "
        "all_to_all_single barrier broadcast gather reduce reduce_scatter reduce_scatter_tensor scatter"
    ).split()
)
_NAMES = tuple(f"{_DISTRIBUTED}{name}" for name in sorted(_ALWAYS | _COLLECTIVES))


class UnawaitedRequest(Rule):
    """## What it does

    Reports asynchronous communication whose request is thrown away: `isend`, `irecv`, `batch_isend_irecv`, and
    collectives with `async_op=True`.

    ## Why is this bad?

    The call returns before the data have moved. Only `wait()` on the request says when the tensor may be read or
    written again: without it a rank may read old or half-written values, or change a tensor that is still being sent.

    ## Example

    ```python
    import torch.distributed as dist

    dist.all_reduce(loss, async_op=True)
    print(loss.item())
    ```

    ## Use instead

    ```python
    import torch.distributed as dist

    request = dist.all_reduce(loss, async_op=True)
    request.wait()
    print(loss.item())
    ```

    ## Exceptions

    A request that is kept in any way, code that waits for the whole device afterwards (`torch.cuda.synchronize()`), and
    a `barrier()` after collectives, which waits for those that its process group has under way.

    ## References

    - [Synchronous and asynchronous collective operations](https://docs.pytorch.org/docs/stable/distributed.html#synchronous-and-asynchronous-collective-operations)
    """

    code = "TL805"
    name = "unawaited-request"
    level = Level.ERROR
    summary = "Nothing waits for this communication: its tensor may be read or changed too early."

    @on_call(*_NAMES)
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        name = unit.semantics.name(call.func)
        short = name[len(_DISTRIBUTED) :]
        if short not in _ALWAYS:
            given = argument(call, torch_api.positional_index(name, "async_op"), "async_op")
            if given is None or unit.semantics.literal(given) is not True:
                return
        if not _is_dropped(call, unit) or _is_waited_for_otherwise(call, unit) or is_asserted_to_raise(call):
            return
        shown = f"`{short}`" if short in _ALWAYS else f"`{short}(..., async_op=True)`"
        yield self.found(call, f"Nothing waits for the request of {shown}: its tensors may be used too early.")


def _is_dropped(call: ast.Call, unit: Unit) -> bool:
    match parent_of(call):
        case ast.Expr():
            return True
        case ast.ListComp() | ast.SetComp() as made if made.elt is call:
            return isinstance(parent_of(made), ast.Expr)
        case ast.Assign(targets=[ast.Name(id=name)]):
            return not any(
                isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
                for node in _around(call, unit, ast.Name)
            ) and (enclosing_function(call) is not None or name == "_")
        case _:
            return False


def _is_waited_for_otherwise(call: ast.Call, unit: Unit) -> bool:
    """Whether the function waits after a call for the device, or for all that its process group has under way."""
    calls = list(_around(call, unit, ast.Call))
    after = calls[calls.index(call) + 1 :] if call in calls else calls
    return any(
        isinstance(other, ast.Call)
        and isinstance(other.func, ast.Attribute)
        and (other.func.attr == "synchronize" or _is_barrier_for(call, other, unit))
        for other in after
    )


def _is_barrier_for(call: ast.Call, other: ast.Call, unit: Unit) -> bool:
    """Whether a call is a barrier of the process group of a collective, which ends after all that was begun before."""
    begun, waits = unit.semantics.name(call.func), unit.semantics.name(other.func)
    if begun.rpartition(".")[2] in _ALWAYS or waits != f"{_DISTRIBUTED}barrier":
        return False
    if argument(other, 1, "async_op") is not None:
        return False
    group, waited = argument(call, torch_api.positional_index(begun, "group"), "group"), argument(other, 0, "group")
    return (ast.unparse(group) if group else "") == (ast.unparse(waited) if waited else "")


def _around(call: ast.Call, unit: Unit, node_type: type[ast.AST]) -> Iterable[ast.AST]:
    """The nodes of a type in the function of a call, nested functions included; those of the module's own code."""
    function = enclosing_function(call)
    return nodes_within(function, node_type) if function is not None else unit.all(node_type)
