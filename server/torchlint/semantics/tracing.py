"""Turning a function body into its flow: statements become structure, calls become actions."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import partial

from torchlint.semantics.call_kinds import MODULE_RETURNS_SELF
from torchlint.semantics.flow import (
    EMPTY,
    Action,
    Attempt,
    Branch,
    Flow,
    Invocation,
    Jump,
    Loop,
    Ref,
    Within,
    is_empty,
    sequence,
)
from torchlint.semantics.index import children_of
from torchlint.semantics.nodes import calls_in_order, element_of, is_static, scope_at
from torchlint.semantics.scopes import Binding, Definition, FunctionNode, Scope
from torchlint.semantics.semantics import Semantics, kind_now

_DEEPEST_ALIAS = 6
#: A longer chain of `elif` is one branch of many arms: as branches inside each other, trees could become too deep.
_LONGEST_CHAIN = 50
#: Builtins that do nothing to what they are given.
_WITHOUT_EFFECT = frozenset(
    "abs all any bool dict enumerate float format hasattr id int isinstance issubclass len list max min print range "
    "repr reversed round set sorted str sum tuple type zip".split()
)
#: Iterating over these gives the elements of their first argument, or the pair (count, element).
_TRANSPARENT = frozenset(
    ("tqdm.tqdm", "tqdm.auto.tqdm", "tqdm.notebook.tqdm", "rich.progress.track", "itertools.islice")
)


class Tracer:
    """Makes the flow of single functions; does not follow calls."""

    def __init__(self, semantics: Semantics) -> None:
        self._semantics = semantics

    def function(self, function: FunctionNode) -> Flow:
        """The flow of a function's body, inside the contexts that its decorators give."""
        memo = self._semantics.module.memo

        def compute() -> Flow:
            body = self._block(function.body)
            contexts = tuple((self._context_name(item), item) for item in function.decorator_list)
            return Within(contexts, body, function) if any(name for name, _ in contexts) else body

        return memo.get(("flow", function), compute, EMPTY)

    def module(self, body: Sequence[ast.stmt]) -> Flow:
        """The flow of the module's own code."""
        return self._block(body)

    # -- statements -------------------------------------------------------------------------------------------------

    def _block(self, body: Sequence[ast.stmt]) -> Flow:
        return sequence([step for statement in body for step in self._statement(statement)])

    def _statement(self, statement: ast.stmt) -> list[Flow]:
        match statement:
            case ast.If() if len(chain := _chain(statement)) > _LONGEST_CHAIN:
                taken = (*(self._block(item.body) for item in chain), self._block(chain[-1].orelse))
                steps = [step for item in chain for step in self._expression(item.test)]
                return [*steps, Branch(None, taken, statement)]
            case ast.If(test=test, body=body, orelse=orelse):
                arms = (self._block(body), self._block(orelse))
                steps = self._expression(test)
                return steps if all(map(is_empty, arms)) else [*steps, Branch(test, arms, statement)]
            case ast.For() | ast.AsyncFor():
                steps = self._expression(statement.iter)
                loop = Loop(
                    self.ref(statement.iter), self._block(statement.body), self._block(statement.orelse), statement
                )
                return [*steps, loop]
            case ast.While(test=test, body=body, orelse=orelse):
                head = self._expression(test)
                return [Loop(None, sequence([*head, self._block(body)]), self._block(orelse), statement)]
            case ast.With() | ast.AsyncWith():
                steps = [step for item in statement.items for step in self._expression(item.context_expr)]
                contexts = tuple((self._context_name(item.context_expr), item.context_expr) for item in statement.items)
                return [*steps, Within(contexts, self._block(statement.body), statement)]
            case ast.Try():
                handlers = tuple(self._block(handler.body) for handler in statement.handlers)
                parts = (self._block(statement.body), self._block(statement.orelse), self._block(statement.finalbody))
                return [Attempt(parts[0], handlers, parts[1], parts[2], statement)]
            case ast.Match(subject=subject, cases=cases):
                taken = (*(self._block(case.body) for case in cases), EMPTY)
                return [*self._expression(subject), Branch(None, taken, statement)]
            case ast.Return(value=value):
                return [*self._expression(value), Jump("return", statement)]
            case ast.Raise():
                return [*self._expression(statement.exc), Jump("raise", statement)]
            case ast.Break():
                return [Jump("break", statement)]
            case ast.Continue():
                return [Jump("continue", statement)]
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                return []
            case ast.Assign(targets=targets, value=value):
                return [*self._expression(value), *self._gradient_writes(targets, value)]
            case ast.Assert():
                return []
            case _:
                return [step for child in children_of(statement) for step in self._expression(child)]

    def _gradient_writes(self, targets: Sequence[ast.expr], value: ast.expr) -> list[Flow]:
        return [
            Action("grad=", self.ref(target.value), (self.ref(value),), target)
            for target in targets
            if isinstance(target, ast.Attribute) and target.attr == "grad"
        ]

    # -- expressions ------------------------------------------------------------------------------------------------

    def _expression(self, node: ast.AST | None) -> list[Flow]:
        """The calls of an expression in the order in which they are evaluated."""
        if node is None:
            return []
        calls = calls_in_order(node)
        if calls is not None:
            return [self._call(call) for call in calls]
        match node:
            case ast.Lambda():
                return []
            case ast.Call():
                before = [*self._expression(node.func if not isinstance(node.func, ast.Attribute) else node.func.value)]
                for item in (*node.args, *(keyword.value for keyword in node.keywords)):
                    before.extend(self._expression(item))
                return [*before, self._call(node)]
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                inner = [step for child in children_of(node) for step in self._expression(child)]
                source = node.generators[0].iter
                return [Loop(self.ref(source), sequence(inner), EMPTY, node)] if inner else []
            case ast.IfExp(test=test, body=body, orelse=orelse):
                arms = (sequence(self._expression(body)), sequence(self._expression(orelse)))
                return [*self._expression(test), Branch(test, arms, node)] if not all(map(is_empty, arms)) else []
            case _:
                return [step for child in children_of(node) for step in self._expression(child)]

    def _call(self, call: ast.Call) -> Flow:
        semantics = self._semantics
        if isinstance(call.func, ast.Name) and call.func.id in _WITHOUT_EFFECT and not semantics.definitions(call.func):
            return EMPTY
        arguments = tuple(
            self.ref(item.value if isinstance(item, ast.Starred) else item)
            for item in (*call.args, *(keyword.value for keyword in call.keywords))
        )
        function = semantics.local_function(call.func)
        if function is not None:
            return Invocation(function, None, self._bound(function, call, 0), arguments, call)
        if isinstance(call.func, ast.Attribute):
            method = self._method(call, call.func, arguments)
            if method is not None:
                return method
        name = semantics.name(call.func)
        if name and not name.startswith("."):
            return Action(name, None, arguments, call)
        if isinstance(call.func, ast.Attribute):
            return Action(call.func.attr, self.ref(call.func.value), arguments, call)
        kind = semantics.kind(call.func)
        if kind is not None and kind.is_module:
            return Action("()", self.ref(call.func), arguments, call)
        return Action("?", self.ref(call.func), arguments, call)

    def _method(self, call: ast.Call, function: ast.Attribute, arguments: tuple[Ref, ...]) -> Flow | None:
        semantics = self._semantics
        owner = semantics.class_of_self(function.value)
        receiver = function.value
        match receiver:
            case ast.Call(func=ast.Name(id="super")):
                return Action(f"super.{function.attr}", None, arguments, call)
        if owner is None:
            kind = semantics.kind(receiver)
            owner = kind.class_node if kind is not None else None
        if owner is None:
            return None
        method = semantics.find_method(owner, function.attr)
        if method is not None and function.attr != "forward":
            offset = 0 if is_static(method) else 1
            bound = self._bound(method, call, offset)
            return Invocation(method, self.ref(receiver), bound, arguments, call)
        attribute = semantics.attribute_kind(owner, function.attr)
        if attribute is not None and attribute.is_module:
            return Action("()", self.ref(function), arguments, call)
        return None

    def _bound(self, function: FunctionNode, call: ast.Call, offset: int) -> dict[str, Ref]:
        """The arguments of a call by the callee's parameter names."""
        positional = [item.arg for item in (*function.args.posonlyargs, *function.args.args)][offset:]
        bound: dict[str, Ref] = {}
        for name, item in zip(positional, call.args, strict=False):
            if isinstance(item, ast.Starred):
                break
            bound[name] = self.ref(item)
        for keyword in call.keywords:
            if keyword.arg is not None:
                bound[keyword.arg] = self.ref(keyword.value)
        return bound

    def _context_name(self, expression: ast.expr) -> str:
        target = expression.func if isinstance(expression, ast.Call) else expression
        name = self._semantics.name(target)
        if not name and isinstance(target, ast.Attribute):
            return f"?.{target.attr}"
        return name

    # -- objects ----------------------------------------------------------------------------------------------------

    def ref(self, expression: ast.expr) -> Ref:
        """An expression as an object of the flow."""
        return Ref(self.path(expression), partial(kind_now, self._semantics.module.memo, expression), expression)

    def path(self, expression: ast.AST | None, depth: int = 0) -> str:
        """What identifies the object that an expression denotes; empty for a value without a name."""
        match expression:
            case ast.Name():
                return self._path_of_name(expression, depth)
            case ast.Attribute(value=base, attr=attribute):
                if self._semantics.class_of_self(base) is not None:
                    return f"self.{attribute}"
                inner = self.path(base, depth)
                return f"{inner}.{attribute}" if inner else ""
            case ast.Subscript(value=base, slice=index):
                inner = self.path(base, depth)
                constant = isinstance(index, ast.Constant)
                return (
                    f"{inner}[{index.value!r}]"
                    if inner and isinstance(index, ast.Constant)
                    else (f"{inner}[]" if inner and not constant else "")
                )
            case ast.Call(func=ast.Name(id="list" | "tuple" | "iter" | "reversed" | "enumerate"), args=[first, *_]):
                return self.path(first, depth)
            case ast.Call(args=[first, *_]) if self._semantics.name(expression.func) in _TRANSPARENT:
                return self.path(first, depth)
            case ast.Call(func=ast.Attribute(value=base, attr=method)) if method in MODULE_RETURNS_SELF:
                kind = self._semantics.kind(base)
                return self.path(base, depth) if kind is None or kind.is_module else ""
            case ast.Call(func=ast.Attribute(value=base, attr="parameters" | "values" as attribute), args=[]):
                inner = self.path(base, depth)
                return f"{inner}.{attribute}()" if inner else ""
            case _:
                return ""

    def _path_of_name(self, name: ast.Name, depth: int) -> str:
        semantics = self._semantics
        if semantics.class_of_self(name) is not None:
            return "self"
        definitions = semantics.definitions(name)
        if len(definitions) == 1 and depth < _DEEPEST_ALIAS:
            (definition,) = definitions
            value = definition.value
            if definition.kind is Binding.ASSIGNMENT and value is not None:
                target = element_of(value, definition.path)
                if isinstance(target, ast.Name | ast.Attribute | ast.Subscript) or _is_conversion(target):
                    alias = self.path(target, depth + 1)
                    if alias:
                        return alias
            if definition.kind in (Binding.LOOP, Binding.COMPREHENSION) and value is not None:
                inner = self._path_of_element(value, definition.path, depth)
                if inner:
                    return inner
        scope = scope_at(name)
        owner = _owner_of(name.id, scope)
        if owner is None:
            return f"::{name.id}"
        parameter = any(item.kind is Binding.PARAMETER for item in owner.definitions[name.id])
        is_function = isinstance(owner.node, ast.FunctionDef | ast.AsyncFunctionDef)
        if parameter and definitions and all(_is_built_anew(item, name.id) for item in definitions):
            parameter = False
        outwards = "^" * _functions_between(scope, owner)
        return f"{outwards}%{name.id}" if parameter and is_function else f"{outwards}${name.id}"

    def _path_of_element(self, source: ast.expr, path: tuple[int | None, ...], depth: int) -> str:
        if isinstance(source, ast.Call) and isinstance(source.func, ast.Name) and source.args:
            if source.func.id == "enumerate" and path[:1] == (1,):
                return self._path_of_element(source.args[0], path[1:], depth)
            if source.func.id == "zip" and path and path[0] is not None and path[0] < len(source.args):
                return self._path_of_element(source.args[path[0]], path[1:], depth)
        match source:
            case ast.Call(func=ast.Attribute(value=base, attr="named_parameters" | "items" as pairs)) if path == (1,):
                inner = self.path(base, depth + 1)
                return f"{inner}.{'values' if pairs == 'items' else 'parameters'}()[]" if inner else ""
        if path:
            return ""
        inner = self.path(source, depth + 1)
        return f"{inner}[]" if inner else ""


def _is_built_anew(definition: Definition, name: str) -> bool:
    """Whether a parameter was given another object, in which the one of the caller has no part."""
    built = definition.value if definition.kind is Binding.ASSIGNMENT else None
    return isinstance(built, ast.Call) and all(
        item.id != name for item in ast.walk(built) if isinstance(item, ast.Name)
    )


def _is_conversion(expression: ast.expr | None) -> bool:
    """``model.to(device)`` and its kind, which give back a module that is converted in place."""
    match expression:
        case ast.Call(func=ast.Attribute(attr=method)):
            return method in MODULE_RETURNS_SELF
        case _:
            return False


def _owner_of(name: str, scope: Scope) -> Scope | None:
    """The function scope (or lambda, comprehension) that binds a name; None for a name of the module."""
    current: Scope | None = scope
    while current is not None and current.parent is not None:
        if name in current.definitions and name not in current.outer_names and not current.is_class:
            return current
        current = current.parent
    return None


def _functions_between(scope: Scope, owner: Scope) -> int:
    """How many functions a name leaves on the way from its use to the scope that binds it."""
    count = 0
    while scope is not owner and scope.parent is not None:
        count += isinstance(scope.node, ast.FunctionDef | ast.AsyncFunctionDef)
        scope = scope.parent
    return count


def _chain(statement: ast.If) -> list[ast.If]:
    """An ``if`` and the ``elif`` that follow it."""
    found = [statement]
    while len(statement.orelse) == 1 and isinstance(statement.orelse[0], ast.If):
        statement = statement.orelse[0]
        found.append(statement)
    return found
