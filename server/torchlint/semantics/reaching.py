"""Which bindings of a local name can reach each of its uses: the walk over the paths of one function.

Loops are walked a second time where the end of a body binds what is new at its start; handlers of a `try` are
reached from any statement of its body. Uses inside nested functions are not recorded: they run at another time.
"""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import cast

from torchlint.semantics.index import PartIndex, children_of, index_of
from torchlint.semantics.scopes import Definition, Scope
from torchlint.syntax import part_of

Environment = dict[str, frozenset[Definition]]
_NOTHING: frozenset[Definition] = frozenset()
_DEFERRED = (ast.Lambda, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
#: What is not evaluated with the expression that holds it, or binds names.
_SPECIAL = (*_DEFERRED, *_COMPREHENSIONS, ast.NamedExpr)
#: Statements that hold no statements and go on to the next.
_SIMPLE = frozenset({ast.Assign, ast.AnnAssign, ast.Expr, ast.Import, ast.ImportFrom, ast.Assert, ast.Delete, ast.Pass})
#: Loops that stand deeper inside each other are walked once, with all that they bind.
_DEEPEST_LOOP = 4


def reaching_definitions(body: Sequence[ast.stmt], scopes: Iterable[Scope]) -> dict[ast.Name, frozenset[Definition]]:
    """For each use of a name that ``scopes`` bind, the definitions that can reach it.

    ``scopes`` are the scope of a function, or the top scopes of all parts of a module.
    """
    walker = _Walker(scopes)
    environment: Environment | None = walker.parameters()
    for statement in body:
        walker.enter(index_of(part_of(statement)))
        environment = walker.block([statement], environment)
    return walker.uses


class _Walker:
    #: Of the part in which the statement stands that is walked now; where in it the local names are read, and where
    #: something stands that is not simply evaluated.
    _index: PartIndex | None = None
    _reads: list[ast.Name]
    _places: list[int]
    _special: list[int]

    def __init__(self, scopes: Iterable[Scope]) -> None:
        self.uses: dict[ast.Name, frozenset[Definition]] = {}
        self._bound: dict[ast.AST, list[Definition]] = {}
        self._locals: set[str] = set()
        self._breaks: list[list[Environment]] = []
        self._continues: list[list[Environment]] = []
        self._depth = 0
        for scope in scopes:
            for name, definitions in scope.definitions.items():
                self._locals.add(name)
                for definition in definitions:
                    self._bound.setdefault(definition.node, []).append(definition)

    def enter(self, index: PartIndex) -> None:
        """Go on in this part."""
        if index is not self._index:
            self._index = index
            names = (name for name in index.all(ast.Name) if name.id in self._locals)
            self._reads = [name for name in names if name.ctx.__class__ is ast.Load]
            self._places = [index.place(name) for name in self._reads]
            self._special = sorted(index.place(node) for node in index.all(*_SPECIAL))

    def parameters(self) -> Environment:
        environment: Environment = {}
        for node, definitions in self._bound.items():
            if isinstance(node, ast.arg):
                environment.update({item.name: frozenset((item,)) for item in definitions})
        return environment

    def block(self, body: Sequence[ast.stmt], environment: Environment | None) -> Environment | None:
        for statement in body:
            if environment is None:
                return None
            environment = self._statement(statement, environment)
        return environment

    def _statement(self, statement: ast.stmt, environment: Environment) -> Environment | None:
        if statement.__class__ in _SIMPLE:
            return self._bind(statement, self._evaluate(statement, environment))
        match statement:
            case ast.If():
                return self._if(statement, environment)
            case ast.For() | ast.AsyncFor():
                environment = self._evaluate(statement.iter, environment)
                return self._loop(statement, statement.body, statement.orelse, environment)
            case ast.While(test=test, body=body, orelse=orelse):
                environment = self._evaluate(test, environment)
                return self._loop(statement, body, orelse, environment, test)
            case ast.With() | ast.AsyncWith():
                for item in statement.items:
                    environment = self._evaluate(item.context_expr, environment)
                return self.block(statement.body, self._bind(statement, environment))
            case ast.Try():
                return self._try(statement, environment)
            case ast.Match(subject=subject, cases=cases):
                environment = self._evaluate(subject, environment)
                ends: list[Environment | None] = [environment]
                for case in cases:
                    inner = environment
                    for pattern in ast.walk(case.pattern):
                        inner = self._bind(pattern, inner)
                    ends.append(self.block(case.body, inner))
                return _join(*ends)
            case ast.Return() | ast.Raise():
                self._evaluate(statement, environment)
                return None
            case ast.Break():
                if self._breaks:
                    self._breaks[-1].append(environment)
                return None
            case ast.Continue():
                if self._continues:
                    self._continues[-1].append(environment)
                return None
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                return self._bind(statement, environment)
            case ast.AugAssign(target=ast.Name() as name):
                environment = self._evaluate(statement.value, environment)
                if name.id in self._locals:
                    self._use(name, environment)
                return self._bind(statement, environment)
            case _:
                return self._bind(statement, self._evaluate(statement, environment))

    def _if(self, statement: ast.If, environment: Environment) -> Environment | None:
        """Along an ``if`` and its chain of ``elif``, each of which is inside the one before."""
        ends: list[Environment | None] = []
        while True:
            environment = self._evaluate(statement.test, environment)
            ends.append(self.block(statement.body, environment))
            match statement.orelse:
                case [ast.If() as statement]:
                    continue
                case orelse:
                    return _join(*ends, self.block(orelse, environment))

    def _loop(
        self,
        node: ast.stmt,
        body: Sequence[ast.stmt],
        orelse: Sequence[ast.stmt],
        before: Environment,
        test: ast.expr | None = None,
    ) -> Environment | None:
        self._breaks.append([])
        head: Environment | None = before
        self._depth += 1
        if self._depth > _DEEPEST_LOOP:  # with each level the work would double
            head = self._with_all_bound(node, before)
        for _ in range(2 if self._depth <= _DEEPEST_LOOP else 1):
            self._continues.append([])
            entered = self._bind(node, head or {})
            if test is not None:
                entered = self._evaluate(test, entered)
            end = self.block(body, entered)
            start, head = head, _join(head, end, *self._continues.pop())
            if head == start:
                break
        self._depth -= 1
        after = self.block(orelse, head)
        return _join(after, *self._breaks.pop())

    def _try(self, statement: ast.Try, environment: Environment) -> Environment | None:
        reached: list[Environment | None] = [environment]
        current: Environment | None = environment
        for inner in statement.body:
            if current is None:
                break
            current = self._statement(inner, current)
            reached.append(current)
        current = self.block(statement.orelse, current)
        at_handler = _join(*reached) or {}
        handled = [self.block(handler.body, self._bind(handler, at_handler)) for handler in statement.handlers]
        after = _join(current, *handled)
        if statement.finalbody:
            finished = self.block(statement.finalbody, _join(after, at_handler))
            return finished if after is not None else None
        return after

    def _bind(self, node: ast.AST, environment: Environment) -> Environment:
        definitions = self._bound.get(node)
        if not definitions:
            return environment
        changed = dict(environment)
        for definition in definitions:
            changed[definition.name] = frozenset((definition,))
        return changed

    def _with_all_bound(self, loop: ast.stmt, before: Environment) -> Environment:
        """What can be bound at the head of a loop at most: by what comes before it, and by anything in it."""
        assert self._index is not None
        joined = dict(before)
        for node, definitions in self._bound.items():
            if part_of(node) is self._index.part and self._index.contains(loop, node):
                for definition in definitions:
                    joined[definition.name] = joined.get(definition.name, _NOTHING) | {definition}
        return joined

    def _use(self, name: ast.Name, environment: Environment) -> None:
        known, reaching = self.uses.get(name), environment.get(name.id, _NOTHING)
        self.uses[name] = reaching if known is None else known | reaching

    def _evaluate(self, node: ast.AST, environment: Environment) -> Environment:
        assert self._index is not None
        start, end = self._index.extent(node)
        special = self._special
        if not special or bisect_left(special, start) == bisect_left(special, end):
            places = self._places
            for name in self._reads[bisect_left(places, start) : bisect_left(places, end)]:
                self._use(name, environment)
            return environment
        stack: list[ast.AST] = [node]
        while stack:
            current = stack.pop()
            if isinstance(current, ast.Name):
                if current.id in self._locals and isinstance(current.ctx, ast.Load):
                    self._use(current, environment)
                continue
            if isinstance(current, _DEFERRED):
                continue
            if isinstance(current, ast.NamedExpr):
                environment = self._bind(current, self._evaluate(current.value, environment))
                continue
            if isinstance(current, _COMPREHENSIONS):
                self._comprehension(current, environment)
                continue
            stack.extend(reversed(list(children_of(current))))
        return environment

    def _comprehension(self, node: ast.AST, environment: Environment) -> None:
        assert self._index is not None
        names = cast("list[ast.Name]", self._index.within(node, ast.Name))
        targets = {name.id for name in names if isinstance(name.ctx, ast.Store)}
        for name in names:
            if name.id in self._locals and name.id not in targets and isinstance(name.ctx, ast.Load):
                self._use(name, environment)


def _join(*environments: Environment | None) -> Environment | None:
    alive = [environment for environment in environments if environment is not None]
    if not alive:
        return None
    first = alive[0]
    if all(other is first for other in alive[1:]):
        return first
    joined: Environment = dict(first)
    for other in alive[1:]:
        for name, definitions in other.items():
            known = joined.get(name)
            joined[name] = definitions if known is None else known | definitions
    return joined
