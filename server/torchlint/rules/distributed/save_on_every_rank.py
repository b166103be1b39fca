from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchlint.idioms.training.frameworks import Duty, owned_duties
from torchlint.regex import regex
from torchlint.rules.base import Diagnosis, Level, Rule, on_flow
from torchlint.semantics.flow import Action, Branch, Flow, Followed, Jump, Steps, Within, actions, children
from torchlint.semantics.nodes import argument
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Root, Unit
from torchlint.syntax import parent_of

_SETUP = ("torch.distributed.init_process_group", "torch.nn.parallel.DistributedDataParallel")
#: What is the same file for all ranks: position and keyword of the argument that names it.
_FILES = {"torch.save": (1, "f"), "shutil.rmtree": (0, "path")}
#: Words of a test, a name or a file that may tell ranks apart.
_RANK = regex(
    r"rank|main|master|primary|chief|lead|zero|gpu|device|world|dist|proc|node|worker|local|coordinator|hvd|head|shard"
    r"|\bpid\b|single|alone|only",
    re.IGNORECASE,
)
#: What names no file that another rank would write too.
_UNIQUE = regex(r"BytesIO|buffer|uuid|tempfile|tmp|temp_|random|hostname|getpid|\btime\b", re.IGNORECASE)
#: What shards the state over ranks: there each rank has a part of its own to save.
_SHARDING = ("FullyShardedDataParallel", "FSDP", "fully_shard", "ZeroRedundancyOptimizer", "DTensor", "deepspeed")


class SaveOnEveryRank(Rule):
    """## What it does

    Hints at `torch.save(...)` and `shutil.rmtree(...)` in a program that has set up a process group, where no test of
    the rank is on the way.

    ## Why is this bad?

    All ranks run the line. They write the same file at the same time, and what is left can be a mixture of both that
    cannot be loaded ("invalid header or archive is corrupted"). After the gradients were averaged the ranks have the
    same weights: let rank 0 save, and let the others wait (`torch.distributed.barrier()`) where they read the file. A
    folder that all ranks delete is gone for all but one of them, which raise `FileNotFoundError`.

    ## Example

    ```python
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel


    def worker(rank, size, net, loader):
        dist.init_process_group("nccl", rank=rank, world_size=size)
        model = DistributedDataParallel(net)
        train(model, loader)
        torch.save(model.module.state_dict(), "model.pt")
    ```

    ## Use instead

    ```python
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel


    def worker(rank, size, net, loader):
        dist.init_process_group("nccl", rank=rank, world_size=size)
        model = DistributedDataParallel(net)
        train(model, loader)
        if rank == 0:
            torch.save(model.module.state_dict(), "model.pt")
    ```

    ## Exceptions

    Sharded models and optimizers, a file for each rank, files in memory, anything on the way that may be a test of the
    rank, and frameworks that save.

    ## References

    - [Save and load checkpoints with DistributedDataParallel](https://docs.pytorch.org/tutorials/intermediate/ddp_tutorial.html#save-and-load-checkpoints)
    """

    code = "TL807"
    name = "save-on-every-rank"
    level = Level.HINT
    summary = "All ranks write or delete the same file at the same time."

    @on_flow("save", "rmtree")
    def check(self, root: Root, unit: Unit) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        module = semantics.module
        if not any(module.mentions_call(name.rpartition(".")[2]) for name in _SETUP):
            return
        if any(module.mentions_call(name) or module.reads_name(name) for name in _SHARDING):
            return
        if owned_duties(semantics, root.function) is not Duty.NONE:
            return
        setup: Action | None = None
        free = set(_on_every_rank(root.flow))
        for action in actions(root.flow):
            if action.verb in _SETUP:
                setup = setup or action
            elif action.verb not in _FILES or setup is None or action not in free:
                continue
            elif isinstance(action.node, ast.Call):
                file = argument(action.node, *_FILES[action.verb])
                deletes = action.verb == "shutil.rmtree"
                if file is None or _has_place_of_its_own(file, semantics) or (deletes and _is_forgiving(action.node)):
                    continue
                yield self._diagnosis(action, file, setup)

    def _diagnosis(self, done: Action, file: ast.expr, setup: Action) -> Diagnosis:
        shown = f"`{ast.unparse(file)}`" if len(ast.unparse(file)) < 60 else "this file"
        does, then = ("write", "") if done.verb == "torch.save" else ("delete", ", and all but the first raise")
        message = (
            f"All ranks {does} {shown} at the same time{then}: no test of the rank is on the way to this `{done.verb}`."
        )
        return self.found(done.node, message, related=[(setup.node, "several ranks from here on")])


def _on_every_rank(flow: Flow) -> Iterator[Action]:
    """The actions that no test of the rank, and no context or function that says so, keeps away from some ranks."""
    match flow:
        case Action():
            yield flow
        case Branch(test=test) if test is None or _RANK.search(ast.unparse(test)):
            return
        case Within(contexts=contexts) if any(_RANK.search(ast.unparse(item)) for _, item in contexts):
            return
        case Followed(function=function) if _RANK.search(function.name):
            return
        case Steps(steps=steps):
            for step in steps:
                yield from _on_every_rank(step)
                if _leaves_by_rank(step):
                    return
        case _:
            for inner in children(flow):
                yield from _on_every_rank(inner)


def _leaves_by_rank(step: Flow) -> bool:
    """Whether a step is ``if rank != 0: return``, after which only some ranks go on."""
    return (
        isinstance(step, Branch)
        and (step.test is None or _RANK.search(ast.unparse(step.test)) is not None)
        and _jumps(step)
    )


def _jumps(flow: Flow) -> bool:
    """Whether a tree leaves its function, raises, or ends an iteration (calls come back)."""
    if isinstance(flow, Followed):
        return False
    return isinstance(flow, Jump) or any(map(_jumps, children(flow)))


def _is_forgiving(deletion: ast.Call) -> bool:
    """Whether it does not matter that another rank was faster: errors are ignored or caught."""
    if len(deletion.args) > 1 or any(
        item.arg in ("ignore_errors", "onerror", "onexc", None) for item in deletion.keywords
    ):
        return True
    child: ast.AST = deletion
    holder = parent_of(deletion)
    while holder is not None and not isinstance(holder, ast.FunctionDef | ast.AsyncFunctionDef):
        if isinstance(holder, ast.Try) and child in holder.body and holder.handlers:
            return True
        child, holder = holder, parent_of(holder)
    return False


def _has_place_of_its_own(file: ast.expr, semantics: Semantics) -> bool:
    """Whether each rank may write somewhere else: a name with the rank, a file in memory, or a file that is given."""
    return any(_RANK.search(text) or _UNIQUE.search(text) for text in _texts(file, semantics))


def _texts(expression: ast.expr, semantics: Semantics) -> Iterator[str]:
    """What an expression says, and what the names in it were given; each definition once."""
    queue, seen = [expression], {expression}
    while queue:
        current = queue.pop(0)
        yield ast.unparse(current)
        for node in ast.walk(current):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                values = {item.value for item in semantics.definitions(node) if item.value is not None}
                queue.extend(values - seen)
                seen |= values
