from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from torchlint.fixes.editor import Editor
from torchlint.frozen import dataclass
from torchlint.idioms.values.cuda import moves_to_cuda
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_unit
from torchlint.semantics.kinds import What
from torchlint.semantics.nodes import argument, contains, nodes_within
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

#: Methods that return the module itself.
_SAME_MODULE = frozenset("to cuda cpu eval train half float double bfloat16 requires_grad_".split())
_CONTAINERS = frozenset(("torch.nn.Sequential", "torch.nn.ModuleList", "torch.nn.Transformer", "torch.nn.DataParallel"))


@dataclass(frozen=True, eq=False)
class _Earlier:
    """The binding before: what made the old model, what put it on the GPU, and the names of its optimizers."""

    binding: ast.stmt
    move: ast.Call
    optimizers: tuple[str, ...]


class NotebookMemoryNotFreed(Rule):
    """## What it does

    Points out, in notebooks, a model on the GPU whose name is bound to another new model while nothing has freed the
    old one. Only notebooks have this: what their cells bind lives until the kernel ends.

    ## Why is this bad?

    While the new model is built the old one is still there, and an optimizer that knows its parameters keeps them, with
    two numbers more for each in the case of Adam. After some experiments the GPU has no memory left, although each
    model fits.

    ## Example

    ```python notebook
    import torch
    from torchvision.models import resnet50

    model = resnet50().cuda()
    evaluate(model)
    model = resnet50(weights="DEFAULT").cuda()
    ```

    ## Use instead

    ```python notebook
    import torch
    from torchvision.models import resnet50
    import gc

    model = resnet50().cuda()
    evaluate(model)
    del model
    gc.collect()
    torch.cuda.empty_cache()
    model = resnet50(weights="DEFAULT").cuda()
    ```

    In a loop `empty_cache()` only costs time; between two experiments it gives memory back that other programs, and
    larger blocks, can use. The fix deletes optimizers of the old model too, where they are made anew before their next
    use. It is not safe: a cell that is run alone may find no name to delete.

    ## Exceptions

    Python files; models that are made in a function or stay on the CPU; a name that is deleted, bound to `None` or
    moved to the CPU in between; single layers; a model that is built from the one before.

    ## References

    - [Memory management](https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management)
    - [FAQ: my GPU memory isn't freed properly](https://docs.pytorch.org/docs/stable/notes/faq.html)
    """

    code = "TL610"
    name = "notebook-memory-not-freed"
    level = Level.HINT
    fix = FixKind.UNSAFE
    summary = "The old model is still on the GPU while the new one is built."

    @on_unit("module")
    def check(self, whole: Unit, unit: Unit) -> Iterator[Diagnosis]:
        if unit.in_notebook:
            for statement in unit.all(ast.Assign):
                if parent_of(statement) is None:
                    yield from self._check(statement, unit)

    def _check(self, statement: ast.Assign, unit: Unit) -> Iterator[Diagnosis]:
        target = statement.targets[0]
        if len(statement.targets) != 1 or not isinstance(target, ast.Name):
            return
        semantics, name = unit.semantics, target.id
        if len(semantics.module.definitions(name)) < 2 or not _makes_model(semantics, statement, name):
            return
        statements = [item for part in semantics.module.own_code() for item in part.body]
        place = statements.index(statement) if statement in statements else 0
        if not _is_on_gpu(semantics, name, statements[place:]):
            return
        earlier = _earlier(semantics, name, statements[:place])
        if earlier is None:
            return
        kept = f", and `{earlier.optimizers[0]}` keeps its parameters" if earlier.optimizers else ""
        message = f"`{name}` is a new model while the old one is still on the GPU{kept}: delete it first."
        related: list[tuple[ast.AST, str]] = [(earlier.binding, "the old model")]
        if not contains(earlier.binding, earlier.move):
            related.append((earlier.move, "goes to the GPU here"))
        gone = [name, *(other for other in earlier.optimizers if _is_made_anew(other, statements[place + 1 :]))]
        fix = FixPlan(f"Free the old `{name}` before", "unsafe", lambda edit: _free(edit, statement, gone))
        yield self.found(statement, message, related=related, fixes=[fix])


def _makes_model(semantics: Semantics, statement: ast.stmt, name: str) -> bool:
    """Whether a statement binds a new module to ``name`` that is more than one layer and not made of the old one."""
    if not isinstance(statement, ast.Assign):
        return False
    value: ast.expr = statement.value
    if any(
        isinstance(node, ast.Name) and node.id == name
        for node in nodes_within(statement, ast.Name)
        if node is not statement.targets[0]
    ):
        return False
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _SAME_MODULE:
        if semantics.names(value.func):
            break
        value = value.func.value
    kind = semantics.kind(value) if isinstance(value, ast.Call) else None
    if kind is None or kind.what is not What.MODULE:
        return False
    return not kind.origin.startswith("torch.nn.") or kind.origin in _CONTAINERS


def _binds(statement: ast.stmt, name: str) -> bool:
    """Whether a top-level statement binds or deletes a name, wherever in it."""
    return any(
        isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load)
        for node in nodes_within(statement, ast.Name)
    )


def _moves(semantics: Semantics, statement: ast.stmt, name: str) -> Iterator[ast.Call]:
    """The calls in a statement that put a name's model, or the model that is bound to it, on some device."""
    bound = isinstance(statement, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id == name for target in statement.targets
    )
    for call in nodes_within(statement, ast.Call):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            continue
        if call.func.attr not in ("to", "cuda", "cpu") or semantics.names(call.func):
            continue
        receiver = call.func.value
        on_name = isinstance(receiver, ast.Name) and receiver.id == name
        on_value = bound and isinstance(statement, ast.Assign) and _is_chain(statement.value, call)
        if on_name or on_value:
            yield call


def _is_chain(value: ast.expr, call: ast.Call) -> bool:
    """Whether ``call`` is ``value`` or stands in its chain of methods."""
    current: ast.expr = value
    while isinstance(current, ast.Call):
        if current is call:
            return True
        if not isinstance(current.func, ast.Attribute):
            return False
        current = current.func.value
    return False


def _is_on_gpu(semantics: Semantics, name: str, statements: Sequence[ast.stmt]) -> bool:
    """Whether the model that the first statement binds goes to the GPU before the name is bound otherwise."""
    return _move_of(semantics, name, statements) is not None


def _move_of(semantics: Semantics, name: str, statements: Sequence[ast.stmt]) -> ast.Call | None:
    for place, statement in enumerate(statements):
        moves = list(_moves(semantics, statement, name))
        if place and _binds(statement, name) and not moves:
            return None
        for call in moves:
            return call if moves_to_cuda(semantics, call) else None
    return None


def _earlier(semantics: Semantics, name: str, before: Sequence[ast.stmt]) -> _Earlier | None:
    """The model that the name holds when it is bound again, if it is on the GPU then."""
    last = next(
        (
            place
            for place in reversed(range(len(before)))
            if _makes_model(semantics, before[place], name) and _binds(before[place], name)
        ),
        None,
    )
    if last is None:
        return None
    between = before[last:]
    move = _move_of(semantics, name, between)
    if move is None:
        return None
    for statement in between[1:]:
        calls = list(_moves(semantics, statement, name))
        if any(not moves_to_cuda(semantics, call) for call in calls):
            return None  # it goes to the CPU, or nobody knows where
        if _binds(statement, name) and not calls:
            return None
    optimizers = tuple(dict.fromkeys(_optimizers(semantics, name, between)))
    return _Earlier(between[0], move, optimizers)


def _optimizers(semantics: Semantics, name: str, statements: Sequence[ast.stmt]) -> Iterator[str]:
    """The names that optimizers of the model are bound to."""
    for statement in statements:
        match statement:
            case ast.Assign(targets=[ast.Name(id=bound)], value=ast.Call() as made):
                kind = semantics.kind(made)
                given = argument(made, 0, "params")
                is_optimizer = kind is not None and kind.what is What.OPTIMIZER and given is not None
                parts = ast.walk(given) if is_optimizer and given is not None else ()
                if any(isinstance(node, ast.Name) and node.id == name for node in parts):
                    yield bound


def _is_made_anew(name: str, after: Sequence[ast.stmt]) -> bool:
    """Whether a name is bound again before it is read."""
    for statement in after:
        uses = [node for node in nodes_within(statement, ast.Name) if isinstance(node, ast.Name) and node.id == name]
        if uses:
            return isinstance(statement, ast.Assign) and not any(isinstance(node.ctx, ast.Load) for node in uses)
    return False


def _free(edit: Editor, statement: ast.stmt, names: Sequence[str]) -> None:
    collect, empty = edit.spell("gc.collect"), edit.spell("torch.cuda.empty_cache")
    edit.insert_statement_before(statement, f"del {', '.join(names)}\n{collect}()\n{empty}()")
