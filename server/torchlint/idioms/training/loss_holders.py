"""Losses that come in something else: ``output`` of ``output["loss"].backward()`` or ``outputs.loss.backward()``."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.frozen import dataclass
from torchlint.idioms.training.gradient_graph import carriers, loss_of
from torchlint.idioms.training.kept_values import Kept
from torchlint.semantics.nodes import contains, nodes_within
from torchlint.semantics.scopes import Binding, Definition
from torchlint.semantics.semantics import Semantics


@dataclass(frozen=True, eq=False, slots=True)
class Holder:
    """What a call returned, and how the loss in it is written (``output['loss']``)."""

    definition: Definition
    text: str


def holders_of(semantics: Semantics, backward: ast.Call, loop: ast.AST) -> tuple[Holder, ...]:
    """What holds the losses of a backward pass, made anew in each iteration of a loop that cuts none of them out."""
    loss = loss_of(semantics, backward)
    value = semantics.value_of(loss) if loss is not None else None
    found = []
    for carrier in carriers(value) if value is not None else ():
        definition = _held_by(semantics, carrier)
        if definition is None or not contains(loop, definition.node):
            continue
        text = ast.unparse(carrier)
        if not _is_replaced(text, definition.name, loop):
            found.append(Holder(definition, text))
    return tuple(found)


def parts_kept(semantics: Semantics, kept: Kept, holders: tuple[Holder, ...]) -> Iterator[ast.expr]:
    """What of a kept value is a held loss: ``total += output["loss"]``."""
    for carrier in carriers(kept.value):
        definition = _held_by(semantics, carrier)
        if any(holder.definition is definition and holder.text == ast.unparse(carrier) for holder in holders):
            yield carrier


def holder_kept(semantics: Semantics, kept: Kept, holders: tuple[Holder, ...]) -> Holder | None:
    """The holder that is stored as a whole: ``outputs.append(output)``."""
    if not kept.stored or not isinstance(kept.value, ast.Name):
        return None
    definitions = semantics.definitions(kept.value)
    return next((holder for holder in holders if definitions == (holder.definition,)), None)


def _held_by(semantics: Semantics, carrier: ast.expr) -> Definition | None:
    """What a loss is an attribute or a named element of: the only binding of a name, to what a call returned."""
    match carrier:
        case ast.Attribute(value=ast.Name() as name, attr=attribute) if "loss" in attribute:
            pass
        case ast.Subscript(value=ast.Name() as name, slice=ast.Constant(value=str())):
            pass
        case _:
            return None
    definitions = semantics.definitions(name)
    if len(definitions) != 1 or definitions[0].kind is not Binding.ASSIGNMENT or definitions[0].path:
        return None
    return definitions[0] if isinstance(definitions[0].value, ast.Call) else None


def _is_replaced(text: str, name: str, loop: ast.AST) -> bool:
    """Whether a loop sets the held loss to something else or takes it out."""
    for node in nodes_within(loop, ast.Subscript, ast.Attribute):
        match node:
            case ast.Attribute(value=ast.Name(id=base), attr="pop" | "update" | "clear") if base == name:
                return True
            case ast.Subscript(value=ast.Name(id=base), slice=index, ctx=ast.Store() | ast.Del()) if base == name:
                if not isinstance(index, ast.Constant) or ast.unparse(node) == text:
                    return True
            case ast.Attribute(ctx=ast.Store() | ast.Del()) if ast.unparse(node) == text:
                return True
            case _:
                pass
    return False
