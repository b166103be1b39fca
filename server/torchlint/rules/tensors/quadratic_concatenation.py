from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.fixes.editor import Editor
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_call
from torchlint.semantics.literals import UNKNOWN
from torchlint.semantics.nodes import argument, enclosing_function, has_unknown_arguments, nodes_within, statement_of
from torchlint.semantics.scopes import last_name
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

_JOINS = ("torch.cat", "torch.concat", "torch.concatenate", "torch.vstack", "torch.hstack")
#: Loops that are known to come round this often or less are not worth a word.
_FEW = 4
_Loop = ast.For | ast.AsyncFor | ast.While


class QuadraticConcatenation(Rule):
    """## What it does

    Reports a tensor that grows in a loop by being concatenated with one more piece: `out = torch.cat([out, y])`.

    ## Why is this bad?

    Each round copies all that was collected before, so the work grows with the square of the number of pieces. A list
    and one `torch.cat` behind the loop copy each piece once.

    ## Example

    ```python
    import torch


    def predict(model, loader):
        out = torch.empty(0)
        for x in loader:
            out = torch.cat([out, model(x)])
        return out
    ```

    ## Use instead

    ```python
    import torch


    def predict(model, loader):
        out = torch.empty(0)
        out_parts = [out]
        for x in loader:
            out_parts.append(model(x))
        out = torch.cat(out_parts)
        return out
    ```

    ## Exceptions

    Loops that need what was collected so far: decoding that feeds the prefix to the model, skip connections, windows of
    a fixed size, results that are yielded or saved as they grow. Loops that come round a few times.

    ## References

    - [torch.cat](https://docs.pytorch.org/docs/stable/generated/torch.cat.html)
    """

    code = "TL417"
    name = "quadratic-concatenation"
    level = Level.HINT
    fix = FixKind.UNSAFE
    summary = "Each round copies all that was collected before."

    @on_call(*_JOINS)
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        choice = parent_of(call)
        statement = parent_of(choice) if isinstance(choice, ast.IfExp) and choice.test is not call else choice
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1 or has_unknown_arguments(call):
            return
        target, pieces = statement.targets[0], argument(call, 0, "tensors")
        if not isinstance(target, ast.Name | ast.Attribute) or not isinstance(pieces, ast.List | ast.Tuple):
            return
        name = ast.unparse(target)
        places = [place for place, piece in enumerate(pieces.elts) if ast.unparse(piece) == name]
        if len(places) != 1 or len(pieces.elts) < 2:
            return
        loop = _loop_around(statement)
        if loop is None or _comes_round_rarely(semantics, loop) or _is_used_in(loop, statement, call, name):
            return
        written = ast.unparse(call.func)
        message = (
            f"`{name}` is copied as a whole in each round of the loop: collect the pieces in a list and call "
            f"`{written}` once, behind it."
        )
        fixes = []
        if (
            isinstance(target, ast.Name)
            and statement is choice
            and places == [0]
            and _is_simple(semantics, statement, loop, call)
        ):
            fixes = [
                FixPlan(
                    "Collect the pieces in a list",
                    "unsafe",
                    lambda edit: _collect(edit, statement, loop, call, pieces, name),
                )
            ]
        yield self.found(call, message, related=[(loop, "the loop is here")], fixes=fixes)


def _loop_around(statement: ast.stmt) -> _Loop | None:
    """The innermost loop in whose body a statement stands."""
    child: ast.AST = statement
    holder = parent_of(statement)
    while holder is not None and not isinstance(holder, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        if isinstance(holder, _Loop):
            return holder if child in holder.body else None
        child, holder = holder, parent_of(holder)
    return None


def _comes_round_rarely(semantics: Semantics, loop: _Loop) -> bool:
    """Whether a loop is known to have few rounds, or leaves after the first."""
    if isinstance(loop.body[-1], ast.Break | ast.Return | ast.Raise):
        return True
    if isinstance(loop, ast.While):
        return False
    source = semantics.value_of(loop.iter)
    if isinstance(source, ast.List | ast.Tuple):
        return len(source.elts) <= _FEW
    if isinstance(source, ast.Call) and getattr(source.func, "id", "") == "range" and len(source.args) == 1:
        count = semantics.literal(source.args[0])
        return isinstance(count, int) and count <= _FEW
    return False


def _is_used_in(loop: _Loop, statement: ast.Assign, call: ast.Call, name: str) -> bool:
    """Whether the loop does anything else with the tensor than to let it grow."""
    own = {statement.targets[0], *_pieces(call)}
    last = name.rpartition(".")[2]
    for node in nodes_within(loop, ast.Name, ast.Attribute):
        if not isinstance(node, ast.Name | ast.Attribute) or node in own:
            continue
        if last_name(node) != last or ast.unparse(node) != name:
            continue
        holder = statement_of(node)
        if _tests_for_first(node):
            continue
        if isinstance(node.ctx, ast.Store) and isinstance(holder, ast.Assign) and _is_other_branch(holder, statement):
            continue
        return True
    return False


def _pieces(call: ast.Call) -> list[ast.expr]:
    pieces = argument(call, 0, "tensors")
    return pieces.elts if isinstance(pieces, ast.List | ast.Tuple) else []


def _tests_for_first(node: ast.expr) -> bool:
    """Whether the tensor is only asked whether something was collected: `if out is None`, `if len(out) == 0`, the same
    in `y if out is None else torch.cat([out, y])`."""
    child: ast.AST = node
    holder = parent_of(node)
    while isinstance(holder, ast.expr) and not isinstance(holder, ast.IfExp):
        match holder:
            case ast.Compare(comparators=[ast.Constant(value=None | 0)]) | ast.UnaryOp(op=ast.Not()):
                pass
            case ast.Call(func=ast.Name(id="len")):
                pass
            case ast.Attribute(attr="numel" | "size" | "shape" | "nelement") | ast.Call(args=[]):
                pass
            case _:
                return False
        child, holder = holder, parent_of(holder)
    return isinstance(holder, ast.If | ast.IfExp) and holder.test is child


def _is_other_branch(assignment: ast.Assign, statement: ast.Assign) -> bool:
    """Whether one branch starts the tensor and the other lets it grow: `if i == 0: out = y` `else: out = cat(...)`."""
    holder = parent_of(assignment)
    if not isinstance(holder, ast.If) or holder is not parent_of(statement):
        return False
    return (assignment in holder.body) != (statement in holder.body)


def _is_simple(semantics: Semantics, statement: ast.Assign, loop: _Loop, call: ast.Call) -> bool:
    """Whether a list can take the place: the tensor grows right in the body of a loop that has no `else`."""
    others = [*call.args[1:], *(item.value for item in call.keywords if item.arg != "tensors")]
    name = getattr(statement.targets[0], "id", "")
    if semantics.module.reads_name(_name_of_parts(name)):
        return False
    if statement not in loop.body or loop.orelse or any(semantics.literal(item) is UNKNOWN for item in others):
        return False
    function = enclosing_function(statement)
    return function is None or not any(isinstance(node, ast.Return) for node in nodes_within(loop, ast.Return))


def _name_of_parts(name: str) -> str:
    return f"{name}_parts"


def _collect(
    edit: Editor, statement: ast.Assign, loop: _Loop, call: ast.Call, pieces: ast.List | ast.Tuple, name: str
) -> None:
    parts = _name_of_parts(name)
    others = [edit.source(piece) for piece in pieces.elts[1:]]
    grown = f"{parts}.append({others[0]})" if len(others) == 1 else f"{parts} += [{', '.join(others)}]"
    start, end = edit.span(pieces)
    head, _ = edit.span(call)
    text = edit.source(call)
    joined = f"{text[: start - head]}{parts}{text[end - head :]}"
    edit.insert_statement_before(loop, f"{parts} = [{name}]")
    edit.replace(statement, grown)
    edit.insert_statement_after(loop, f"{name} = {joined}")
