"""Printing what torchlint makes of a file, for whoever writes a rule or wonders about a finding."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.semantics.flow import (
    Action,
    Attempt,
    Branch,
    Flow,
    Followed,
    Invocation,
    Jump,
    Loop,
    Ref,
    Steps,
    Within,
    is_empty,
)
from torchlint.semantics.index import index_of
from torchlint.semantics.kinds import Kind
from torchlint.semantics.memo import Memo
from torchlint.semantics.module import ModuleFacts
from torchlint.semantics.scopes import dotted
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Root, Unit
from torchlint.syntax import SyntaxModule, parent_of, parse_module, part_of
from torchlint.text import Document

#: The names whose calls make a function worth printing as a flow.
_EVENTS = frozenset(("backward", "step", "zero_grad", "eval", "train", "no_grad", "inference_mode"))


def print_names(document: Document) -> str:
    """Each name or dotted name that has canonical names, with its place (row:column from 1)."""
    semantics, syntax = _semantics_of(document)
    lines = []
    for group in syntax.groups:
        for part in group.parts:
            index = index_of(part)
            read: list[ast.expr] = [node for node in index.all(ast.Name) if isinstance(node.ctx, ast.Load)]
            read += [node for node in index.all(ast.Attribute) if isinstance(node.ctx, ast.Load)]
            for node in read:
                found = semantics.names(node)
                if found and not isinstance(parent_of(node), ast.Attribute):
                    lines.append((*_place(syntax, node), f"{dotted(node)} = {', '.join(sorted(found))}"))
    return "\n".join(f"{row}:{column}: {text}" for row, column, text in sorted(lines))


def print_kinds(document: Document) -> str:
    """Each assigned name or attribute whose value has a kind, with the evidence."""
    semantics, syntax = _semantics_of(document)
    lines = []
    for group in syntax.groups:
        for part in group.parts:
            index = index_of(part)
            assigned = [(node, node.targets[0], node.value) for node in index.all(ast.Assign)]
            annotated = [(node, node.target, node.value) for node in index.all(ast.AnnAssign)]
            for node, target, value in (*assigned, *annotated):
                kind = semantics.kind(value)
                if kind is not None:
                    lines.append((*_place(syntax, node), f"{ast.unparse(target)}: {_shown_kind(kind)}"))
    return "\n".join(f"{row}:{column}: {text}" for row, column, text in sorted(lines))


def print_flow(document: Document) -> str:
    """The flow of each function that trains or evaluates, with called functions of the file followed."""
    semantics, syntax = _semantics_of(document)
    lines: list[str] = []
    for nodes in semantics.module.units():
        unit = Unit(nodes, semantics, None, in_notebook=bool(document.cells))
        for root in unit.roots() if unit.reached(frozenset({_EVENTS})) else ():
            if not is_empty(root.flow):
                lines += [f"{_title(root, nodes.name)}", *_flow_lines(root.flow, syntax, 1), ""]
    return "\n".join(lines).rstrip()


def _semantics_of(document: Document) -> tuple[Semantics, SyntaxModule]:
    syntax = parse_module(document.text)
    return Semantics(ModuleFacts(syntax, Memo())), syntax


def _place(syntax: SyntaxModule, node: ast.AST) -> tuple[int, int]:
    part = part_of(node)
    return syntax.row_of(part) + node.lineno - part.lead, node.col_offset + 1  # type: ignore[attr-defined]


def _shown_kind(kind: Kind) -> str:
    return f"{kind.grade.name.lower()} {kind.what.value}{f' ({kind.origin})' if kind.origin else ''}: {kind.evidence}"


def _title(root: Root, unit_name: str) -> str:
    return f"{unit_name}:" if root.function is None or unit_name.endswith(root.name) else f"{unit_name}, {root.name}:"


def _flow_lines(flow: Flow, syntax: SyntaxModule, depth: int) -> Iterator[str]:
    pad = "  " * depth

    def line(text: str, node: ast.AST) -> str:
        return f"{_place(syntax, node)[0]:>5} {pad}{text}"

    match flow:
        case Steps(steps=steps):
            for step in steps:
                yield from _flow_lines(step, syntax, depth)
        case Action():
            yield line(_shown_action(flow), flow.node)
        case Branch(test=test, arms=arms, node=node):
            yield line(f"if {ast.unparse(test)}" if test is not None else "match", node)
            for position, arm in enumerate(arms):
                if position and not is_empty(arm):
                    yield f"      {pad}else"
                yield from _flow_lines(arm, syntax, depth + 1)
        case Loop(iterable=iterable, body=body, orelse=orelse, node=node):
            over = _shown_ref(iterable) if iterable is not None else ""
            yield line(f"loop over {over}" if over else "loop", node)
            yield from _flow_lines(body, syntax, depth + 1)
            if not is_empty(orelse):
                yield f"      {pad}else"
                yield from _flow_lines(orelse, syntax, depth + 1)
        case Attempt(body=body, handlers=handlers, orelse=orelse, final=final, node=node):
            yield line("try", node)
            yield from _flow_lines(body, syntax, depth + 1)
            for title, inner in (*(("except", handler) for handler in handlers), ("else", orelse), ("finally", final)):
                if not is_empty(inner):
                    yield f"      {pad}{title}"
                    yield from _flow_lines(inner, syntax, depth + 1)
        case Within(contexts=contexts, body=body, node=node):
            yield line(f"with {', '.join(name or ast.unparse(made) for name, made in contexts)}", node)
            yield from _flow_lines(body, syntax, depth + 1)
        case Followed(function=function, body=body, node=node):
            yield line(f"call of {function.name}", node)
            yield from _flow_lines(body, syntax, depth + 1)
        case Invocation(function=function, node=node):
            yield line(f"call of {function.name} (not followed)", node)
        case Jump(to=to, node=node):
            yield line(to, node)


def _shown_action(action: Action) -> str:
    arguments = ", ".join(_shown_ref(item) for item in action.arguments)
    receiver = _shown_ref(action.receiver) if action.receiver is not None else ""
    if action.verb == "()":
        return f"{receiver}({arguments})"
    if action.verb == "?":
        return f"{receiver or 'something'}({arguments}), unknown"
    if action.verb == "...":
        assert isinstance(action.node, ast.Call)
        return f"call of {ast.unparse(action.node.func)}({arguments}), not followed"
    if action.verb == "grad=":
        return f"{receiver}.grad = {arguments}"
    return f"{receiver}.{action.verb}({arguments})" if receiver else f"{action.verb}({arguments})"


def _shown_ref(ref: Ref) -> str:
    name = ref.shown or (ast.unparse(ref.node) if ref.node is not None else "")
    name = name if len(name) <= 40 else f"{name[:37]}..."
    return f"{name}<{ref.kind.what.value}>" if ref.kind is not None else name
