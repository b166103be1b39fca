"""Code that provides for several versions of a library: what it says holds only where the version fits."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchlint.regex import regex
from torchlint.semantics.scopes import Binding
from torchlint.semantics.semantics import Semantics
from torchlint.syntax import parent_of
from torchlint.torch_api import tensor_method

#: What an absent module, name or parameter raises.
_ABSENCE = frozenset(("ImportError", "ModuleNotFoundError", "AttributeError", "TypeError", "Exception", "NameError"))
_VERSION_TEXT = regex(r"v?\d+\.\d+(\.|$)|v?\d+\.\d+\.\d+")
_VERSION_NAME = regex(
    r"version|torch.*(_ge|_gt|_le|_lt|at_least|greater|older|newer|before|after|\d_\d)|(requires|has)_torch",
    re.IGNORECASE,
)
_PARTS_OF_VERSION = frozenset(("major", "minor", "micro", "release"))
_ATTRIBUTE_PROBES = frozenset(("hasattr", "getattr"))
_PROBES = frozenset(("find_spec", "signature")) | _ATTRIBUTE_PROBES
#: Methods of modules and schedulers that came with some release begin so.
_METHODS_OF_TORCH = ("register_", "get_last_lr", "set_extra_state", "get_parameter", "get_buffer")
_DEEPEST = 3


def in_version_fallback(semantics: Semantics, node: ast.AST) -> bool:
    """Whether a node runs only where a version fits: in a ``try`` that expects something to be absent, under a test of
    a version or of an attribute's presence, after such a test that leaves the function, or under a decorator that
    names a version."""
    child, holder = node, parent_of(node)
    while holder is not None:
        match holder:
            case ast.Try(body=body, handlers=handlers) if child not in holder.finalbody:
                probing = child in body or child in handlers or child in holder.orelse
                if probing and any(_expects_absence(handler) for handler in handlers):
                    return True
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
                if child is not test and is_version_test(semantics, test):
                    return True
            case ast.BoolOp(values=values):
                before = values[: values.index(child)] if child in values else []
                if any(is_version_test(semantics, value) for value in before):
                    return True
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                if any(_is_for_version(semantics, decorator) for decorator in holder.decorator_list):
                    return True
            case ast.With() | ast.AsyncWith():
                if any(_suppresses_absence(semantics, item.context_expr) for item in holder.items):
                    return True
        if _follows_version_exit(semantics, holder, child) or _is_default(semantics, holder, child):
            return True
        child, holder = holder, parent_of(holder)
    return False


def is_version_test(semantics: Semantics, test: ast.expr, depth: int = 0) -> bool:
    """Whether a condition asks for a version, or whether something exists: ``hasattr(torch, "x")``,
    ``Version(torch.__version__) >= Version("2.4")``, a name or attribute that was bound to such a condition, a
    function of the file that returns one."""
    for node in ast.walk(test):
        match node:
            case ast.Name(id="version_info") | ast.Attribute(attr="version_info" | "__version__" | "__kwdefaults__"):
                return True
            case ast.Constant(value=str(text)) if _VERSION_TEXT.match(text):
                return True
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in _PROBES:
                if name not in _ATTRIBUTE_PROBES or _probes_library(semantics, node):
                    return True
            case ast.Name(id=name) | ast.Attribute(attr=name) if _VERSION_NAME.search(name):
                return True
            case ast.Name() | ast.Attribute(value=ast.Name()) if depth < _DEEPEST and not _is_looked_into(node):
                if any(
                    is_version_test(semantics, value, depth + 1)
                    or (isinstance(value, ast.Constant) and _binds_in_fallback(statement))
                    for statement, value in _bound_to(semantics, node)
                ):
                    return True
            case ast.Call(func=ast.Name() as function) if depth < _DEEPEST:
                called = semantics.local_function(function)
                returned = semantics.returned_values(called) if called is not None else ()
                if any(is_version_test(semantics, value, depth + 1) for value in returned):
                    return True
    return False


def _is_looked_into(node: ast.expr) -> bool:
    """Whether an attribute of a value is asked for: the value is an object (``self.model.config``), not the answer to
    a question about a version, unless it is a version itself."""
    holder = parent_of(node)
    return isinstance(holder, ast.Attribute) and holder.attr not in _PARTS_OF_VERSION


def _probes_library(semantics: Semantics, probe: ast.Call) -> bool:
    """Whether `hasattr` asks what a library has, not what an object of the project has (``hasattr(layer, "weight")``,
    ``getattr(args, "amp", False)``): it is given something imported, or the name of a method of torch."""
    if len(probe.args) < 2 or semantics.names(probe.args[0]):
        return True
    asked = semantics.literal(probe.args[1])
    return not isinstance(asked, str) or tensor_method(asked) is not None or asked.startswith(_METHODS_OF_TORCH)


def _bound_to(semantics: Semantics, node: ast.Name | ast.Attribute) -> Iterator[tuple[ast.AST, ast.expr]]:
    """The assignments that a name or attribute of ``self`` may come from, with their values."""
    if isinstance(node, ast.Name):
        for definition in semantics.definitions(node):
            if definition.kind is Binding.ASSIGNMENT and definition.value is not None:
                yield definition.node, definition.value
        return
    owner = semantics.class_of_self(node.value)
    for holder in semantics.lineage(owner) if owner is not None else ():
        for definition in semantics.module.body_definitions(holder, node.attr):
            if definition.value is not None:
                yield definition.node, definition.value
        for write in semantics.module.attribute_writes(holder, node.attr):
            if write.value is not None:
                yield write.statement, write.value


def _binds_in_fallback(statement: ast.AST) -> bool:
    """Whether ``NAME = True`` (or False, None) stands in a ``try`` or handler that expects something to be absent."""
    holder = parent_of(statement)
    if isinstance(holder, ast.ExceptHandler):
        return _expects_absence(holder)
    return isinstance(holder, ast.Try) and any(_expects_absence(handler) for handler in holder.handlers)


def _expects_absence(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(isinstance(item, ast.Name) and item.id in _ABSENCE for item in types)


def _suppresses_absence(semantics: Semantics, context: ast.expr) -> bool:
    return (
        isinstance(context, ast.Call)
        and semantics.is_named(context.func, "contextlib.suppress")
        and any(isinstance(item, ast.Name) and item.id in _ABSENCE for item in context.args)
    )


def _is_for_version(semantics: Semantics, decorator: ast.expr) -> bool:
    """Whether a decorator keeps a function for some versions: ``@implement_for("torch", "2.2")``, ``@skipif(...)``."""
    if not isinstance(decorator, ast.Call) or not is_version_test(semantics, decorator):
        return False
    return "deprecat" not in ast.unparse(decorator.func).lower()


def _follows_version_exit(semantics: Semantics, holder: ast.AST, child: ast.AST) -> bool:
    """Whether a statement of the same block before ``child`` tests a version and leaves the block."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(holder, name, None)
        if not isinstance(block, list) or child not in block:
            continue
        for statement in block[: block.index(child)]:
            if isinstance(statement, ast.If) and _leaves(statement.body) and is_version_test(semantics, statement.test):
                return True
            if isinstance(statement, ast.Assert) and is_version_test(semantics, statement.test):
                return True
    return False


def _is_default(semantics: Semantics, holder: ast.AST, child: ast.AST) -> bool:
    """Whether ``child`` binds a name that the next statement binds again under a test of a version: what is bound
    first is meant for the versions that fail the test."""
    match child:
        case ast.Assign(targets=[ast.Name(id=name)]):
            pass
        case _:
            return False
    for field in ("body", "orelse", "finalbody"):
        block = getattr(holder, field, None)
        if not isinstance(block, list) or child not in block:
            continue
        match block[block.index(child) + 1 :]:
            case [ast.If(test=test, body=[*_, ast.Assign(targets=[ast.Name(id=again)])]), *_] if again == name:
                return is_version_test(semantics, test)
    return False


def _leaves(block: list[ast.stmt]) -> bool:
    return bool(block) and isinstance(block[-1], ast.Return | ast.Raise | ast.Continue | ast.Break)
