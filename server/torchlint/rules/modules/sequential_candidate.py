from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from torchlint.fixes import Editor
from torchlint.idioms.modules.module_state import State, state_of
from torchlint.idioms.modules.straight_line import Step, straight_line, takes_one_tensor
from torchlint.idioms.surroundings.stated import comments_around, count_of_comments
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_module_class
from torchlint.semantics.classes import ClassView
from torchlint.semantics.nodes import nodes_within
from torchlint.semantics.scopes import FunctionNode
from torchlint.semantics.unit import Unit

_HOOKS = (
    "register_forward_hook",
    "register_forward_pre_hook",
    "register_full_backward_hook",
    "create_feature_extractor",
)
#: The comments right above a statement and the one behind it, by statement.
Comments = dict[ast.stmt, tuple[tuple[str, ...], str]]
#: The attribute that the fix makes: the first of these that the class does not have.
_NAMES = ("layers", "stack", "sequence", "network")
#: A chain shorter than this gains nothing.
_FEWEST_STEPS, _FEWEST_LAYERS = 3, 2


class SequentialCandidate(Rule):
    """## What it does

    Points out a `forward` that only runs the module's own layers one after the other, with functions between them
    that exist as layers, too.

    ## Why is this bad?

    It is not wrong. An `nn.Sequential` says the same once instead of twice, in the order in which it runs, and a layer
    that is added cannot be forgotten in `forward`.

    ## Example

    ```python
    import torch.nn as nn
    import torch.nn.functional as F


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1 = nn.Linear(784, 128)
            self.fc2 = nn.Linear(128, 10)

        def forward(self, x):
            x = F.relu(self.fc1(x))
            return self.fc2(x)
    ```

    ## Use instead

    ```python
    import torch.nn as nn
    import torch.nn.functional as F


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(
                nn.Linear(784, 128),
                nn.ReLU(),
                nn.Linear(128, 10),
            )

        def forward(self, x):
            return self.layers(x)
    ```

    ## Exceptions

    A `forward` with branches, several inputs or a layer that it uses twice; layers that something else in the file
    reads; files that register hooks; classes that others in the file derive from.

    The refactoring renames the keys of the state dict (`fc1.weight` becomes `layers.0.weight`), so that checkpoints of
    before no longer load.

    ## References

    - [torch.nn.Sequential](https://docs.pytorch.org/docs/stable/generated/torch.nn.Sequential.html)
    """

    code = "TL123"
    name = "sequential-candidate"
    level = Level.HINT
    fix = FixKind.UNSAFE
    summary = "A `forward` that only chains layers can be one `nn.Sequential`."

    @on_module_class()
    def check(self, view: ClassView, unit: Unit) -> Iterator[Diagnosis]:
        forward, constructor = view.method("forward"), view.method("__init__")
        if forward is None or constructor is None or not _is_plain(view):
            return
        steps = straight_line(view)
        if steps is None or len(steps) < _FEWEST_STEPS:
            return
        layers = [step.layer for step in steps if step.layer]
        if len(layers) < _FEWEST_LAYERS or len(set(layers)) != len(layers):
            return
        built = [_built(view, layer, constructor) for layer in layers]
        statements = [statement for statement in built if statement is not None]
        if len(statements) != len(layers) or not all(_is_only_chained(view, layer) for layer in layers):
            return
        new = next((name for name in _NAMES if name not in view.attributes and view.method(name) is None), None)
        fixes = []
        comments = _comments_of_forward(steps, forward)
        if new is not None and comments is not None and not _cannot_move(statements, constructor):
            title = f"Rewrite as `nn.Sequential`{_renamed(view, steps, new)}"
            by_layer = dict(zip(layers, statements, strict=True))
            fixes = [FixPlan(title, "unsafe", lambda edit: _rewrite(edit, steps, by_layer, comments, forward, new))]
        yield self.found(
            forward,
            f"`forward` of `{view.name}` only runs {len(steps)} steps one after the other: they can be one"
            " `nn.Sequential`.",
            related=[(min(statements, key=lambda statement: statement.lineno), "the first of its layers")],
            fixes=fixes,
        )


def _is_plain(view: ClassView) -> bool:
    """Whether nothing else can depend on the layers' names: no other base, subclass, or hook in the file."""
    semantics = view.semantics
    if len(view.node.bases) != 1 or not semantics.is_named(view.node.bases[0], "torch.nn.Module"):
        return False
    if view.node.decorator_list or semantics.module.is_base(view.name):
        return False
    return not any(semantics.module.mentions_call(name) for name in _HOOKS)


def _built(view: ClassView, layer: str, constructor: FunctionNode) -> ast.Assign | None:
    """The statement of the constructor that makes a layer, where that is all that is written to it."""
    writes = view.writes(layer)
    if len(writes) != 1 or not takes_one_tensor(view, layer):
        return None
    statement = writes[0].statement
    alone = isinstance(statement, ast.Assign) and len(statement.targets) == 1 and not writes[0].path
    if not alone or statement not in constructor.body:
        return None
    assert isinstance(statement, ast.Assign)
    return statement if isinstance(statement.value, ast.Call) else None


def _is_only_chained(view: ClassView, layer: str) -> bool:
    """Whether a layer is read once, by the chain."""
    if len(list(view.reads(layer))) != 1:
        return False
    return not view.semantics.module.reads_attribute(layer, of_others=True)


def _cannot_move(statements: Sequence[ast.stmt], constructor: FunctionNode) -> bool:
    """Whether a name that a layer is made with is bound anew between the first and the last of them, or a layer is made
    with a text over several rows."""
    body = constructor.body
    places = [body.index(statement) for statement in statements]
    between = body[min(places) : max(places) + 1]
    used = {
        node.id
        for statement in statements
        for node in nodes_within(statement, ast.Name)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
    texts = (node for statement in statements for node in nodes_within(statement, ast.Constant, ast.JoinedStr))
    if any(node.end_lineno != node.lineno for node in texts):  # type: ignore[attr-defined]
        return True  # the rows of such a text would be indented anew
    return any(
        isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in used
        for statement in between
        for node in nodes_within(statement, ast.Name)
    )


def _renamed(view: ClassView, steps: Sequence[Step], new: str) -> str:
    """What the title says of the state dict."""
    for position, step in enumerate(steps):
        if not step.layer or state_of(view.attribute_kind(step.layer), view.semantics) is State.NOTHING:
            continue
        return f" (renames state dict keys: `{step.layer}.*` becomes `{new}.{position}.*`)"
    return ""


# -- the refactoring ------------------------------------------------------------------------------------------------


def _rewrite(
    edit: Editor,
    steps: Sequence[Step],
    statements: dict[str, ast.Assign],
    comments: Comments,
    forward: FunctionNode,
    new: str,
) -> None:
    """Build the layers in one ``nn.Sequential`` where the last of them was built, and call that in ``forward``."""
    moved = dict(comments)
    lines: list[str] = []
    for step in steps:
        statement = statements.get(step.layer)
        above, behind = comments_around(statement) if statement is not None else ((), "")
        forward_above, forward_behind = moved.pop(step.statement, ((), ""))
        if behind and forward_behind:
            forward_above, forward_behind = (*forward_above, forward_behind), ""
        lines += (*above, *forward_above)
        text = _source(edit, statement.value) if statement is not None else _layer(edit, step)
        comment = behind or forward_behind
        lines += f"{text},{'  ' + comment if comment else ''}".split("\n")
    last = max(statements.values(), key=lambda statement: statement.lineno)
    name = edit.source(last.targets[0]).partition(".")[0]
    step_in = "\t" if edit.indentation(last).startswith("\t") else "    "
    body = "\n".join(f"{step_in}{line}" for line in lines)
    edit.insert_statement_after(last, f"{name}.{new} = {edit.spell('torch.nn.Sequential')}(\n{body}\n)")
    for statement in statements.values():
        edit.remove_statement(statement)
    _shorten_forward(edit, forward, f"{name}.{new}")


def _source(edit: Editor, value: ast.expr) -> str:
    """The text of an expression with the indentation of its statement taken from its other rows."""
    statement = edit.statement_of(value)
    indentation = edit.indentation(statement)
    first, *rest = edit.source(value).splitlines()
    return "\n".join([first, *(row.removeprefix(indentation) for row in rest)])


def _layer(edit: Editor, step: Step) -> str:
    """The layer that stands for a function."""
    arguments = [step.text] if step.text else [edit.source(argument) for argument in step.arguments]
    return f"{edit.spell(step.function)}({', '.join(arguments)})"


def _comments_of_forward(steps: Sequence[Step], forward: FunctionNode) -> Comments | None:
    """The comments at the statements that go away, by statement. Those at the last one stay where they are.

    None where there are others, which would be lost.
    """
    found: Comments = {}
    kept = 0
    for statement in dict.fromkeys(step.statement for step in steps):
        above, behind = comments_around(statement)
        kept += len(above) + bool(behind)
        if not isinstance(statement, ast.Return):
            found[statement] = (above, behind)
    return found if kept == count_of_comments(forward.body[0], forward.body[-1]) else None


def _shorten_forward(edit: Editor, forward: FunctionNode, sequential: str) -> None:
    last = forward.body[-1]
    for statement in forward.body[:-1]:
        if not (isinstance(statement, ast.Expr) and statement is forward.body[0]):
            edit.remove_statement(statement)
    given = forward.args.args[-1].arg
    edit.replace(last, f"return {sequential}({given})")
