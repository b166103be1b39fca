from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchlint.fixes.editor import Editor, FixImpossible
from torchlint.idioms.training.gradient_actions import is_backward, is_foreign_backward
from torchlint.idioms.training.vocabulary import Training, training_of
from torchlint.regex import regex
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_flow
from torchlint.semantics.flow import Action, Attempt, Branch, Flow, Loop, children, walk
from torchlint.semantics.kinds import What
from torchlint.semantics.nodes import nodes_within
from torchlint.semantics.unit import Root, Unit
from torchlint.syntax import parent_of

_CALLS = {
    "torch.cuda.empty_cache": "waits for the GPU and gives memory back that the next step has to allocate again",
    "torch.mps.empty_cache": "waits for the GPU and gives memory back that the next step has to allocate again",
    "torch.xpu.empty_cache": "waits for the GPU and gives memory back that the next step has to allocate again",
    "torch.accelerator.empty_cache": "gives memory back that the next step has to allocate again",
    "gc.collect": "walks all Python objects",
}
#: A test that only asks whether there is a GPU is no reason to do it in every iteration.
_ASKS_FOR_DEVICE = regex(r"cuda|gpu|device|mps", re.IGNORECASE)
_ASKS_FOR_MORE = regex(r"%|==\s*0|memory|oom|>|<|step|iter|batch|epoch|every|interval|\bnot\b", re.IGNORECASE)
#: What a loop goes over that is no batch, in the names of its variables.
_NO_BATCHES = regex(
    r"(?:^|_)(?:models?|net|config|cfg|fold|seed|trial|size|dtype|device|prompt|task)(?:s?$|_)", re.IGNORECASE
)
_MEASURES = regex(r"^torch\.(cuda|mps|xpu|accelerator)\.(\w*memory\w*|reset_\w+)$")
_MEASURES_IN_NAME = regex(r"bench|profil|memory|latency|throughput", re.IGNORECASE)


class EmptyCacheInLoop(Rule):
    """## What it does

    Reports `torch.cuda.empty_cache()` and `gc.collect()` in each iteration of a training loop.

    ## Why is this bad?

    PyTorch keeps freed GPU memory in a cache, from which the next step takes what it needs at once. `empty_cache()`
    waits for the GPU to finish, returns the cache to the driver, and the next step allocates all of it again. It frees
    nothing that a tensor still uses, so it cannot prevent running out of memory. `gc.collect()` stops the program while
    it looks at every object. Removing them has more than halved the time of a step in real projects.

    ## Example

    ```python
    import torch


    def train(model: torch.nn.Module, loader, criterion, optimizer):
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = criterion(model(inputs), targets)
            loss.backward()
            optimizer.step()
            torch.cuda.empty_cache()
    ```

    ## Use instead

    ```python
    import torch


    def train(model: torch.nn.Module, loader, criterion, optimizer):
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = criterion(model(inputs), targets)
            loss.backward()
            optimizer.step()
    ```

    ## Exceptions

    Once per epoch, in every n-th iteration, after an out-of-memory error, and in benchmarks that measure memory. Loops
    over models, configurations or sizes, which build or free something big in each iteration.

    ## References

    - [torch.cuda.empty_cache](https://docs.pytorch.org/docs/stable/generated/torch.cuda.memory.empty_cache.html)
    - [Memory management](https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management)
    """

    code = "TL603"
    name = "empty-cache-in-loop"
    level = Level.WARNING
    fix = FixKind.UNSAFE
    summary = "Every training step pays for memory that is given back and allocated again."

    @on_flow("empty_cache", "collect")
    def check(self, root: Root, unit: Unit) -> Iterator[Diagnosis]:
        found = training_of(unit.semantics, root)
        if not any(map(_is_any_backward, found.actions)) or any(
            _MEASURES.match(action.verb) for action in found.actions
        ):
            return
        for loop in (flow for flow in walk(root.flow) if isinstance(flow, Loop)):
            if _is_over_models(loop, unit):
                continue
            steps = list(_each_iteration(loop.body))
            backward = next((action for action in _own_actions(loop.body) if _is_any_backward(action)), None)
            if backward is None or _is_measurement(found, backward, root):
                continue
            for action in steps:
                if action.verb in _CALLS and not _is_measurement(found, action, root):
                    yield self._diagnosis(action, loop)

    def _diagnosis(self, action: Action, loop: Loop) -> Diagnosis:
        call = ast.unparse(action.node)
        message = f"`{call}` in each iteration of a training loop {_CALLS[action.verb]}."
        fix = FixPlan(f"Remove `{call}`", "unsafe", lambda edit: _remove(edit, action.node))
        return self.found(action.node, message, related=[(loop.node, "in this loop")], fixes=[fix])


def _is_any_backward(action: Action) -> bool:
    """Whether an action is a backward pass, also one that an accelerator or engine runs."""
    return is_backward(action) or is_foreign_backward(action)


def _is_over_models(loop: Loop, unit: Unit) -> bool:
    """Whether the iterations are no training steps: each has a model or an optimizer of its own, or the loop goes over
    values that are written out."""
    node = loop.node
    if isinstance(node, ast.For | ast.AsyncFor):
        if isinstance(unit.semantics.value_of(node.iter), ast.List | ast.Tuple | ast.Dict | ast.Set):
            return True
        if _NO_BATCHES.search(ast.unparse(node.target)):
            return True
    for statement in nodes_within(node, ast.Assign):
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
            kind = unit.semantics.kind(statement.value)
            if kind is not None and (kind.what in (What.OPTIMIZER, What.MODULE)) and _is_built(statement.value, unit):
                return True
    return False


def _is_built(call: ast.Call, unit: Unit) -> bool:
    """Whether an object is made by a call, not only moved or set to another mode by one of its methods."""
    while isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Call):
        call = call.func.value
    kind = unit.semantics.kind(call.func.value) if isinstance(call.func, ast.Attribute) else None
    return kind is None


def _each_iteration(flow: Flow) -> Iterator[Action]:
    """The actions that happen in every iteration: not in an inner loop, a handler, or behind a real condition."""
    match flow:
        case Action():
            yield flow
        case Loop():
            return
        case Branch(test=test, arms=arms):
            if test is not None and _only_asks_for_device(test):
                for arm in arms:
                    yield from _each_iteration(arm)
        case Attempt(body=body, orelse=orelse, final=final):
            for part in (body, orelse, final):
                yield from _each_iteration(part)
        case _:
            for inner in children(flow):
                yield from _each_iteration(inner)


def _own_actions(flow: Flow) -> Iterator[Action]:
    """The actions of a loop's body, without those of inner loops."""
    if isinstance(flow, Action):
        yield flow
    elif not isinstance(flow, Loop):
        for inner in children(flow):
            yield from _own_actions(inner)


def _only_asks_for_device(test: ast.expr) -> bool:
    text = ast.unparse(test)
    return _ASKS_FOR_DEVICE.search(text) is not None and _ASKS_FOR_MORE.search(text) is None


def _is_measurement(found: Training, action: Action, root: Root) -> bool:
    functions = [root.name, *(call.function.name for call in found.places[action].calls)]
    return any(_MEASURES_IN_NAME.search(name) for name in functions)


def _remove(edit: Editor, call: ast.AST) -> None:
    statement = edit.statement_of(call)
    if not isinstance(statement, ast.Expr) or statement.value is not call:
        raise FixImpossible("its value is used")
    match parent_of(statement):
        case ast.If(test=test, body=[_], orelse=[]) as branch if _only_asks_for_device(test):
            edit.remove_statement(branch)
        case _:
            edit.remove_statement(statement)
