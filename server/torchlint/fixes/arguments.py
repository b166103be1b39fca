"""Changing the arguments of one call with libcst, which keeps comments, commas and layout.

libcst is loaded when the first fix is asked for, and given only the call.
"""

from __future__ import annotations

import ast
from typing import Any


def with_keyword(call: str, keyword: str, value: str) -> str:
    """The text of a call with ``keyword=value``: replaced if it is there, else added before any ``**kwargs``."""
    import libcst

    node = _parsed(call)
    new = libcst.Arg(
        keyword=libcst.Name(keyword),
        value=_parsed(value),
        equal=libcst.AssignEqual(libcst.SimpleWhitespace(""), libcst.SimpleWhitespace("")),
    )
    arguments = list(node.args)
    for position, argument in enumerate(arguments):
        if argument.keyword is not None and argument.keyword.value == keyword:
            arguments[position] = argument.with_changes(value=new.value)
            return _written(node.with_changes(args=arguments), call)
    place = next((index for index, item in enumerate(arguments) if item.star == "**"), len(arguments))
    if place == len(arguments) and arguments:
        last = arguments[-1]
        if isinstance(last.comma, libcst.Comma):
            # A trailing comma stands before the closing bracket on its own line: keep that layout.
            new = new.with_changes(comma=_with_comment(last.comma, None))
            separator = _without_lines(_same_separator(arguments, node.whitespace_before_args))
            arguments[-1] = last.with_changes(comma=_with_comment(separator, last.comma))
        else:
            arguments[-1] = last.with_changes(
                comma=libcst.Comma(whitespace_after=libcst.SimpleWhitespace(" ")),
                whitespace_after_arg=libcst.SimpleWhitespace(""),
            )
            new = new.with_changes(whitespace_after_arg=last.whitespace_after_arg)
    elif place < len(arguments):
        new = new.with_changes(comma=libcst.Comma(whitespace_after=libcst.SimpleWhitespace(" ")))
    arguments.insert(place, new)
    return _written(node.with_changes(args=arguments), call)


def _parsed(text: str) -> Any:
    """The tree of an expression that stands in brackets, so that it may go over lines (``x`` newline ``.view(1)``)."""
    import libcst

    node = libcst.parse_expression(f"({text})")
    return node.with_changes(lpar=node.lpar[1:], rpar=node.rpar[:-1])


def _written(node: Any, original: str) -> str:
    """The text of a tree, with the line ends of the original."""
    import libcst

    newline = "\r\n" if "\r\n" in original else "\r" if "\r" in original else "\n"
    return libcst.Module([], default_newline=newline).code_for_node(node)


def position_of(call: ast.Call, argument: ast.expr) -> int:
    """The place of an argument among all of a call, from 0: positional ones first, then keywords."""
    keywords = [item.value for item in call.keywords]
    return call.args.index(argument) if argument in call.args else len(call.args) + keywords.index(argument)


def _with_comment(comma: Any, other: Any) -> Any:
    """A comma with the comment that stands behind ``other`` on its line (None: with no comment)."""
    import libcst

    space, source = comma.whitespace_after, getattr(other, "whitespace_after", None)
    if not isinstance(space, libcst.ParenthesizedWhitespace):
        return comma
    line = source.first_line if isinstance(source, libcst.ParenthesizedWhitespace) else libcst.TrailingWhitespace()
    return comma.with_changes(whitespace_after=space.with_changes(first_line=line))


def _without_lines(comma: Any) -> Any:
    """A comma without the empty and comment lines that follow it."""
    import libcst

    space = comma.whitespace_after
    if not isinstance(space, libcst.ParenthesizedWhitespace):
        return comma
    return comma.with_changes(whitespace_after=space.with_changes(empty_lines=()))


def _same_separator(arguments: list[Any], opening: Any) -> Any:
    """The comma between the arguments before; of a single one, a comma with the white space behind the bracket."""
    import libcst

    if len(arguments) > 1 and isinstance(arguments[-2].comma, libcst.Comma):
        return arguments[-2].comma
    if isinstance(opening, libcst.ParenthesizedWhitespace):
        return libcst.Comma(whitespace_after=opening)
    return libcst.Comma(whitespace_after=libcst.SimpleWhitespace(" "))


def without_argument(call: str, position: int) -> str:
    """The text of a call without its argument at ``position`` (from 0, positional and keyword ones in order)."""
    node = _parsed(call)
    arguments = list(node.args)
    removed = arguments.pop(position)
    if position == len(arguments) and arguments:
        arguments[-1] = arguments[-1].with_changes(comma=_last_comma(arguments[-1].comma, removed))
    return _written(node.with_changes(args=arguments), call)


def _last_comma(before: Any, removed: Any) -> Any:
    """What follows the last argument once ``removed`` behind it is gone: its comma and layout, with the comment that
    stood behind ``before``."""
    import libcst

    if isinstance(removed.comma, libcst.Comma):
        return _with_comment(removed.comma, before)
    space, end = before.whitespace_after, removed.whitespace_after_arg
    if isinstance(space, libcst.ParenthesizedWhitespace) and space.first_line.comment is not None:
        if isinstance(end, libcst.ParenthesizedWhitespace):
            space = end.with_changes(first_line=space.first_line)
        return before.with_changes(whitespace_after=space)
    return removed.comma


def load() -> None:
    """Load libcst and what it loads when it is used, for somebody who will ask for a fix and should not wait then."""
    with_keyword("f(x)", "y", "1")
