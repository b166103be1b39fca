"""What a fix may do to a text, in the words of a fix: replace, wrap, insert a statement, move one, add a keyword.

All positions come from the nodes of the version that is mended. Edits that touch each other or a place that does not
parse raise ``FixImpossible``: then no fix is offered.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from torchlint.finding import TextEdit
from torchlint.fixes.arguments import position_of, with_keyword, without_argument
from torchlint.semantics.nodes import statement_of
from torchlint.semantics.semantics import Semantics
from torchlint.syntax import SyntaxModule, parent_of, part_of
from torchlint.text import Document
from torchlint.torch_api import canonical, versioned_name


class FixImpossible(Exception):
    """A fix cannot be computed from the live text."""


class Editor:
    """Collects the edits of one fix."""

    def __init__(self, document: Document, syntax: SyntaxModule, semantics: Semantics) -> None:
        self._document = document
        self._syntax = syntax
        self.semantics = semantics
        self._edits: list[TextEdit] = []
        self._imports: list[str] = []

    # -- reading ----------------------------------------------------------------------------------------------------

    def span(self, node: ast.AST) -> tuple[int, int]:
        """The character offsets of a node, end exclusive."""
        part = part_of(node)
        row = self._syntax.row_of(part) - part.lead
        lines = self._document.lines
        lineno, end_lineno = node.lineno, node.end_lineno  # type: ignore[attr-defined]
        if any(lineno - 1 - part.lead <= broken <= end_lineno - 1 - part.lead for broken in part.broken_rows):
            raise FixImpossible("the statement does not parse")
        start = lines.offset_of_ast(lineno + row, node.col_offset)  # type: ignore[attr-defined]
        return start, lines.offset_of_ast(end_lineno + row, node.end_col_offset)  # type: ignore[attr-defined]

    def source(self, node: ast.AST) -> str:
        """The text of a node."""
        start, end = self.span(node)
        return self._document.text[start:end]

    def statement_of(self, node: ast.AST) -> ast.stmt:
        """The innermost statement that holds a node."""
        try:
            return statement_of(node)
        except ValueError:
            raise FixImpossible("no statement") from None

    def block_of(self, statement: ast.stmt) -> Sequence[ast.stmt]:
        """The statements of the block in which a statement stands."""
        return self.semantics.block_of(statement)

    def indentation(self, statement: ast.stmt) -> str:
        """The white space before a statement. A statement that does not begin its line has none of its own."""
        start, _ = self.span(statement)
        line_start = self._line_start(start)
        before = self._document.text[line_start:start]
        if before.strip():
            raise FixImpossible("the statement does not begin its line")
        return before

    def _line_start(self, offset: int) -> int:
        row, _ = self._document.lines.position(offset)
        return self._document.lines.line_start(row)

    # -- expressions ------------------------------------------------------------------------------------------------

    def replace(self, node: ast.AST, text: str) -> None:
        """Put ``text`` in the place of a node."""
        start, end = self.span(node)
        self._edits.append(TextEdit(start, end, text))

    def replace_by_operand(self, node: ast.expr, operand: ast.expr) -> None:
        """Put an inner expression of ``node`` in its place, in brackets where the place needs them."""
        text = self.source(operand)
        holder = parent_of(node)
        argument = isinstance(holder, ast.keyword) or (isinstance(holder, ast.Call) and node in holder.args)
        simple = isinstance(operand, ast.Name | ast.Attribute | ast.Call | ast.Subscript | ast.Constant)
        bracketed = isinstance(operand, ast.Tuple | ast.List | ast.Dict | ast.GeneratorExp)
        if not (argument or simple or bracketed) or isinstance(operand, ast.NamedExpr):
            text = f"({text})"
        self.replace(node, text)

    def rename_called(self, call: ast.Call, name: str) -> None:
        """Call another function of the same module, or another method of the same object: ``F.softmax(x)`` becomes
        ``F.log_softmax(x)``. A function that was imported by itself is spelled as the file can."""
        function = call.func
        if isinstance(function, ast.Attribute):
            self.replace(function, f"{self.source(function.value)}.{name}")
            return
        head = self.semantics.name(function).rpartition(".")[0]
        if not head:
            raise FixImpossible("the function has no other name")
        self.replace(function, self.spell(f"{head}.{name}"))

    def wrap(self, node: ast.AST, before: str, after: str) -> None:
        """Put texts around a node: ``wrap(node, "list(", ")")``."""
        start, end = self.span(node)
        self._edits += (TextEdit(start, start, before), TextEdit(end, end, after))

    def insert_after(self, node: ast.AST, text: str) -> None:
        """Put text right behind a node: ``insert_after(name, "()")``."""
        _, end = self.span(node)
        self._edits.append(TextEdit(end, end, text))

    def insert_before(self, node: ast.AST, text: str) -> None:
        """Put text right before a node."""
        start, _ = self.span(node)
        self._edits.append(TextEdit(start, start, text))

    def add_keyword(self, call: ast.Call, keyword: str, value: str) -> None:
        """Give a call a keyword argument (the last one, before ``**``); comments and commas are kept."""
        self.replace(call, with_keyword(self.source(call), keyword, value))

    def remove_argument(self, call: ast.Call, argument: ast.expr) -> None:
        """Take an argument (positional or the value of a keyword) away from a call."""
        self.replace(call, without_argument(self.source(call), position_of(call, argument)))

    # -- statements -------------------------------------------------------------------------------------------------

    def insert_statement_before(self, statement: ast.stmt, text: str) -> None:
        """Put a statement on a line of its own before another, with its indentation."""
        indentation = self.indentation(statement)
        start = self._line_start(self.span(_first_of(statement))[0])
        self._edits.append(TextEdit(start, start, self._lines(text, indentation)))

    def insert_statement_after(self, statement: ast.stmt, text: str) -> None:
        """Put a statement on a line of its own after another, with its indentation."""
        indentation = self.indentation(statement)
        offset, separated = self._after_line(self.span(statement)[1])
        lines = self._lines(text, indentation)
        if not separated:
            lines = self._document.newline + lines.removesuffix(self._document.newline)
        self._edits.append(TextEdit(offset, offset, lines))

    def insert_first_in(self, function: ast.FunctionDef | ast.AsyncFunctionDef, text: str) -> None:
        """Put a statement at the start of a function's body, after its docstring."""
        match function.body[0]:
            case ast.Expr(value=ast.Constant(value=str())) as docstring:
                self.insert_statement_after(docstring, text)
            case first:
                self.insert_statement_before(first, text)

    def decorate(self, function: ast.FunctionDef | ast.AsyncFunctionDef, decorator: str) -> None:
        """Give a function a decorator, below those that it has: ``decorate(function, "torch.no_grad()")``."""
        start, _ = self.span(function)
        indentation = self.indentation(function)
        self._edits.append(TextEdit(start, start, f"@{decorator}{self._document.newline}{indentation}"))

    def rename_definition(self, function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> None:
        """Call a function or method by another name where it is defined; what calls it is left as it is."""
        start, end = self.span(function)
        found = re.match(r"(?:async\s+)?def\s+(\w+)", self._document.text[start:end])
        if found is None or found.group(1) != function.name:
            raise FixImpossible("the definition is written in an unusual way")
        self._edits.append(TextEdit(start + found.start(1), start + found.end(1), name))

    def remove_statement(self, statement: ast.stmt) -> None:
        """Take a statement away with its lines; ``pass`` is left where it was alone."""
        start, end = self._lines_of(statement)
        if self._is_alone(statement):
            self.replace(statement, "pass")
        else:
            self._edits.append(TextEdit(start, end, ""))

    def move_before(self, statement: ast.stmt, target: ast.stmt) -> None:
        """Move a statement with its comments so that it stands before another of the same block and its comments."""
        self._move(statement, self._lines_of(target)[0], target)

    def move_after(self, statement: ast.stmt, target: ast.stmt) -> None:
        """Move a statement with its comments so that it stands right after another of the same block."""
        offset, separated = self._after_line(self.span(target)[1])
        if not separated:
            raise FixImpossible("the last line has no end")
        self._move(statement, offset, target)

    def _move(self, statement: ast.stmt, to: int, target: ast.stmt) -> None:
        if self._is_alone(statement):
            raise FixImpossible("the statement is alone in its block")
        if self.indentation(statement) != self.indentation(target):
            raise FixImpossible("the statements are not of one block")
        start, end = self._lines_of(statement)
        text = self._document.text[start:end]
        if not text.endswith(("\n", "\r")):
            raise FixImpossible("the last line has no end")
        self._edits += (TextEdit(start, end, ""), TextEdit(to, to, text))

    def indent_into(self, first: ast.stmt, last: ast.stmt, header: str) -> None:
        """Put the statements ``first`` to ``last`` of one block under a header such as ``with torch.no_grad():``."""
        indentation = self.indentation(first)
        start, _ = self._lines_of(first)
        _, end = self._lines_of(last)
        rows = range(self._document.lines.position(start)[0], self._document.lines.position(max(end - 1, start))[0] + 1)
        if any(self._in_text_literal(row, first, last) for row in rows):
            raise FixImpossible("a text over several lines would be changed")
        step = "\t" if indentation.startswith("\t") else "    "
        self._edits.append(TextEdit(start, start, self._lines(header, indentation)))
        for row in rows:
            if self._document.lines.line(row).strip():
                offset = self._document.lines.line_start(row)
                self._edits.append(TextEdit(offset, offset, step))

    def dedent_from(self, first: ast.stmt, last: ast.stmt, holder: ast.stmt) -> None:
        """Take the last statements of a block, ``first`` to ``last``, out of the statement that holds the block."""
        outer, inner = self.indentation(holder), self.indentation(first)
        if not inner.startswith(outer) or self._is_alone(first):
            raise FixImpossible("nothing would be left in the block")
        start, _ = self._lines_of(first)
        _, end = self._lines_of(last)
        lines = self._document.lines
        for row in range(lines.position(start)[0], lines.position(max(end - 1, start))[0] + 1):
            if self._in_text_literal(row, first, last):
                raise FixImpossible("a text over several lines would be changed")
            if lines.line(row).strip():
                if not lines.line(row).startswith(inner):
                    raise FixImpossible("a line is indented less than its block")
                offset = lines.line_start(row)
                self._edits.append(TextEdit(offset + len(outer), offset + len(inner), ""))

    def _in_text_literal(self, row: int, first: ast.stmt, last: ast.stmt) -> bool:
        """Whether a row begins inside a string that spans rows."""
        holder = parent_of(first)
        blocks = (getattr(holder, name, None) or [] for name in ("body", "orelse", "finalbody"))
        body: list[ast.stmt] = next((block for block in blocks if first in block), [first])
        for statement in body[body.index(first) : body.index(last) + 1]:
            for node in ast.walk(statement):
                if isinstance(node, ast.Constant | ast.JoinedStr) and node.end_lineno != node.lineno:
                    start, end = self.span(node)
                    if self._document.lines.position(start)[0] < row <= self._document.lines.position(end)[0]:
                        return True
        return False

    def _lines(self, text: str, indentation: str) -> str:
        newline = self._document.newline
        return "".join(f"{indentation}{line}{newline}" for line in text.split("\n"))

    def _after_line(self, offset: int) -> tuple[int, bool]:
        """The offset after the line that holds ``offset``, and whether that line has an end."""
        lines = self._document.lines
        row, _ = lines.position(offset)
        if row + 1 < lines.row_count:
            return lines.line_start(row + 1), True
        return len(self._document.text), False

    def _lines_of(self, statement: ast.stmt) -> tuple[int, int]:
        """A statement's lines with the comment lines right above it, as offsets."""
        indentation = self.indentation(statement)
        lines = self._document.lines
        row, _ = lines.position(self.span(_first_of(statement))[0])
        while row > 0 and lines.line(row - 1).startswith(indentation + "#"):
            row -= 1
        end, _ = self._after_line(self.span(statement)[1])
        last_row, _ = lines.position(self.span(statement)[1])
        rest = lines.line(last_row)[lines.position(self.span(statement)[1])[1] :].strip()
        if rest and not rest.startswith("#"):
            raise FixImpossible("another statement stands on the line")
        return lines.line_start(row), end

    def _is_alone(self, statement: ast.stmt) -> bool:
        parent = parent_of(statement)
        return any(getattr(parent, name, None) == [statement] for name in ("body", "orelse", "finalbody"))

    # -- names ------------------------------------------------------------------------------------------------------

    def spell(self, name: str) -> str:
        """How this file writes a canonical name (``nn.ModuleList``); an import is added where it has no way yet."""
        spelling = spelled(self.semantics, name)
        if spelling is not None:
            return spelling
        module = name.rpartition(".")[0]
        self.add_import(f"import {module}")
        return name

    def add_import(self, statement: str) -> None:
        """Add an import after the imports that the file begins with, once."""
        if statement not in self._imports:
            self._imports.append(statement)

    def remove_imported(self, statement: ast.ImportFrom, alias: ast.alias) -> None:
        """Take one of several names away from an import."""
        position = statement.names.index(alias)
        start, end = self.span(alias)
        if position + 1 < len(statement.names):
            end = self.span(statement.names[position + 1])[0]
        else:
            start = self.span(statement.names[position - 1])[1]
        if "#" in self._document.text[start:end]:
            raise FixImpossible("a comment stands in the import")
        self._edits.append(TextEdit(start, end, ""))

    def replace_imported_module(self, statement: ast.ImportFrom, module: str) -> None:
        """Import the same names from another module."""
        start, end = self.span(statement)
        found = re.match(r"from\s+(\S+)\s+import\b", self._document.text[start:end])
        if found is None:
            raise FixImpossible("the import is written in an unusual way")
        self._edits.append(TextEdit(start + found.start(1), start + found.end(1), module))

    def edits(self) -> tuple[TextEdit, ...]:
        """The edits, sorted. Raises FixImpossible if two overlap."""
        edits = list(self._edits)
        if self._imports:
            offset, prefix = self._import_place()
            newline = self._document.newline
            edits.append(TextEdit(offset, offset, prefix + "".join(line + newline for line in self._imports)))
        edits.sort(key=lambda edit: (edit.start, edit.end))
        for one, other in pairwise(edits):
            if other.start < one.end:
                raise FixImpossible("edits overlap")
        return tuple(edits)

    def _import_place(self) -> tuple[int, str]:
        """After the last plain import at the top of the file, else after the module's docstring."""
        place: ast.stmt | None = None
        for statement in self._syntax.body:
            if isinstance(statement, ast.Import | ast.ImportFrom) or (
                isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant) and place is None
            ):
                place = statement
            elif place is not None or not isinstance(statement, ast.Expr):
                break
        if place is None:
            return 0, ""
        offset, separated = self._after_line(self.span(place)[1])
        return offset, "" if separated else self._document.newline


def spelled(semantics: Semantics, name: str) -> str | None:
    """How the top level of the file already spells a canonical name; None if nothing imported leads to it."""
    return next(_spellings(semantics, name), None)


def _spellings(semantics: Semantics, name: str) -> Iterator[str]:
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        head = ".".join(parts[:length])
        rest = "".join(f".{part}" for part in parts[length:])
        for bound, imported in semantics.module.imports():
            # A private or deprecated alias of the name is no way to write it.
            if imported == head or (canonical(imported) == head and versioned_name(imported) is None):
                yield bound + rest


def _first_of(statement: ast.stmt) -> ast.AST:
    """Where a statement begins: its first decorator, if it has one."""
    decorators = getattr(statement, "decorator_list", None)
    return decorators[0] if decorators else statement
