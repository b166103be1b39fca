"""Delivering what stands in a unit to the rules that asked for it, so that cost does not grow with their number."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from torchlint.frozen import dataclass
from torchlint.idioms.values.losses import loss_call, may_have_losses
from torchlint.rules.base import Diagnosis, Rule
from torchlint.semantics.classes import ClassView
from torchlint.semantics.index import PartIndex, imported_names
from torchlint.semantics.unit import Unit

_Check = Callable[[Any, Unit], Iterator[Diagnosis]]
_Handler = tuple[type[Rule], _Check]
_Deliver = Callable[[Iterable[_Handler], object], None]


@dataclass(frozen=True, eq=False)
class Outcome:
    """What rules say about a unit, which of them raised and with what, and whether the unit is nested too deeply to be
    followed: what was found until then counts. Kept with the unit, so that a failure is told in each version."""

    diagnoses: tuple[Diagnosis, ...] = ()
    failures: tuple[tuple[type[Rule], str], ...] = ()
    too_deep: bool = False


def _outcome(handler: _Handler, subject: object, unit: Unit) -> Outcome:
    rule, check = handler
    found: list[Diagnosis] = []
    try:
        found.extend(check(subject, unit))
    except Exception as error:
        return Outcome(tuple(found), ((rule, f"{type(error).__name__}: {error}"),))
    return Outcome(tuple(found))


class Dispatcher:
    """The subscriptions of a set of rules, by what they want to see."""

    def __init__(self, rules: Iterable[type[Rule]]) -> None:
        self.codes = frozenset(rule.code for rule in rules)
        self._calls: dict[str, list[_Handler]] = {}
        self._methods: dict[str, list[_Handler]] = {}
        self._references: dict[str, list[_Handler]] = {}
        self._losses: dict[str, list[_Handler]] = {}
        self._keywords: list[tuple[Callable[[str], bool], _Handler]] = []
        self._handlers_of_keyword: dict[str, list[_Handler]] = {}
        self._nodes: dict[type[ast.AST], list[_Handler]] = {}
        self._builtins: dict[str, list[_Handler]] = {}
        self._assignments: list[tuple[frozenset[type[ast.expr]], frozenset[type[ast.expr]], _Handler]] = []
        self._attributes_set: list[tuple[Callable[[str], bool], _Handler]] = []
        self._handlers_of_assignment: dict[tuple[type[ast.expr], type[ast.expr], str], list[_Handler]] = {}
        self._operations: dict[type[ast.AST], list[_Handler]] = {}
        self._units: dict[str, list[_Handler]] = {}
        self._classes: list[_Handler] = []
        self._module_classes: list[_Handler] = []
        self._functions: list[_Handler] = []
        self._flows: dict[tuple[frozenset[str], ...], list[_Handler]] = {}
        self._outermost_flows: dict[tuple[frozenset[str], ...], list[_Handler]] = {}
        for rule in rules:
            instance = rule()
            for subscription, method in rule.handlers():
                self._subscribe(subscription.topic, subscription.keys, (rule, getattr(instance, method)))
        self._referred = frozenset(self._references)
        self._asked = frozenset(name for wanted in self._flows for names in wanted for name in names)
        self._wanted = frozenset(names for wanted in (*self._flows, *self._outermost_flows) for names in wanted)
        self._tails = frozenset(name.rpartition(".")[2] for name in self._calls)

    def _subscribe(self, topic: str, keys: tuple[Any, ...], handler: _Handler) -> None:
        match topic:
            case "call":
                for key in keys:
                    self._calls.setdefault(key, []).append(handler)
            case "method":
                for key in keys:
                    self._methods.setdefault(key, []).append(handler)
            case "reference":
                for key in keys:
                    self._references.setdefault(key, []).append(handler)
            case "loss":
                for key in keys:
                    self._losses.setdefault(key, []).append(handler)
            case "keyword":
                self._keywords.append((keys[0], handler))
            case "node":
                for key in keys:
                    self._nodes.setdefault(key, []).append(handler)
            case "builtin":
                for key in keys:
                    self._builtins.setdefault(key, []).append(handler)
            case "assignment":
                self._assignments.append((*keys, handler))
            case "attribute set":
                self._attributes_set.append((keys[0], handler))
            case "operation":
                for key in keys:
                    self._operations.setdefault(key, []).append(handler)
            case "unit":
                for key in keys:
                    self._units.setdefault(key, []).append(handler)
            case "class":
                self._classes.append(handler)
            case "module class":
                self._module_classes.append(handler)
            case "function":
                self._functions.append(handler)
            case "flow":
                self._flows.setdefault(keys[0], []).append(handler)
            case "outermost flow":
                self._outermost_flows.setdefault(keys[0], []).append(handler)
            case _:
                raise ValueError(f"unknown topic {topic!r}")

    def run(self, unit: Unit) -> Outcome:
        """What all rules say about a unit."""
        found: list[Diagnosis] = []
        failures: dict[type[Rule], str] = {}
        too_deep = False

        def deliver(handlers: Iterable[_Handler], subject: object) -> None:
            for rule, check in handlers:
                try:
                    found.extend(check(subject, unit))
                except Exception as error:  # a rule that raises costs its own findings, nothing else
                    failures.setdefault(rule, f"{type(error).__name__}: {error}")

        def deliver_class(handlers: Iterable[_Handler], view: Any) -> None:
            for outcome in self._about_class(handlers, view, unit):
                found.extend(outcome.diagnoses)
                for rule, message in outcome.failures:
                    failures.setdefault(rule, message)

        try:
            # A text that is linted once is not cut finer than into units: what rules ask in common is then found once.
            by_rule = unit.is_whole_class and not unit.semantics.module.memo.is_first_version
            self._deliver(unit, deliver, deliver_class if by_rule else deliver)
        except RecursionError:
            too_deep = True
        return Outcome(tuple(found), tuple(failures.items()), too_deep)

    def _about_class(self, handlers: Iterable[_Handler], view: ClassView, unit: Unit) -> Iterator[Outcome]:
        """What rules say about a class of several parts, each kept by itself: an edit of a member costs only the rules
        that asked for what has changed."""
        memo = unit.semantics.module.memo
        setup = memo.token((unit.torch, unit.in_notebook))
        for handler in handlers:
            yield memo.get(
                ("about class", handler, view.node, setup), partial(_outcome, handler, view, unit), Outcome()
            )

    def _deliver(self, unit: Unit, deliver: _Deliver, deliver_class: _Deliver) -> None:
        self._deliver_calls(unit, deliver)
        if self._referred:
            self._deliver_references(unit, deliver)
        if self._losses and may_have_losses(unit.semantics):
            for call in unit.all(ast.Call):
                loss = loss_call(unit.semantics, call)
                if loss is not None:
                    deliver(self._losses.get(loss.name, ()), loss)
        if self._keywords:
            known = self._handlers_of_keyword
            for keyword in unit.all(ast.keyword):
                name = keyword.arg or ""
                wanting = known[name] if name in known else self._of_keyword(name)
                if wanting:
                    deliver(wanting, keyword)
        for index in unit.indexes:
            for node_type, nodes in index.nodes.items():
                handlers = self._nodes.get(node_type)
                if handlers is not None:
                    for node in nodes:
                        deliver(handlers, node)
            for statement in index.all(ast.Assign):
                wanting = self._wanting(statement)
                if wanting:
                    deliver(wanting, statement)
            if self._operations and (ast.BinOp in index.nodes or ast.Compare in index.nodes):
                self._deliver_operations(index, deliver)
        deliver(self._units.get(unit.kind, ()), unit)
        if self._functions:
            for function in unit.functions():
                deliver(self._functions, function)
        for view in unit.classes():
            deliver_class(self._classes, view)
            if self._module_classes and view.is_module:
                deliver_class(self._module_classes, view)
        reached = unit.reached(self._wanted)
        if not reached:
            return
        for wanted, handlers in self._flows.items():
            if reached.issuperset(wanted):
                for root in unit.working_roots(self._asked):
                    deliver(handlers, root)
        for wanted, handlers in self._outermost_flows.items():
            if reached.issuperset(wanted):
                for root in unit.outermost_roots():
                    deliver(handlers, root)

    def _wanting(self, statement: ast.Assign) -> list[_Handler]:
        """The handlers that want an assignment."""
        if len(statement.targets) == 1 and statement.targets[0].__class__ is not ast.Tuple:
            return self._of_assignment(statement.targets[0], statement.value)
        wanting: list[_Handler] = []
        for target in statement.targets:
            for place in target.elts if isinstance(target, ast.Tuple | ast.List) else (target,):
                wanting += [one for one in self._of_assignment(place, statement.value) if one not in wanting]
        return wanting

    def _of_assignment(self, target: ast.expr, value: ast.expr) -> list[_Handler]:
        attribute = target.attr if target.__class__ is ast.Attribute else ""
        key = (target.__class__, value.__class__, attribute)
        handlers = self._handlers_of_assignment.get(key)
        if handlers is None:
            handlers = [one for to, of, one in self._assignments if key[0] in to and (not of or key[1] in of)]
            handlers += [one for resembles, one in self._attributes_set if attribute and resembles(attribute)]
            self._handlers_of_assignment[key] = handlers
        return handlers

    def _deliver_operations(self, index: PartIndex, deliver: _Deliver) -> None:
        operations = self._operations
        for operation in index.all(ast.BinOp):
            handlers = operations.get(operation.op.__class__)
            if handlers is not None:
                deliver(handlers, operation)
        for comparison in index.all(ast.Compare):
            if len(comparison.ops) == 1:
                handlers = operations.get(comparison.ops[0].__class__)
                if handlers is not None:
                    deliver(handlers, comparison)

    def _of_keyword(self, name: str) -> list[_Handler]:
        handlers = self._handlers_of_keyword.get(name)
        if handlers is None:
            handlers = [handler for resembles, handler in self._keywords if resembles(name)]
            self._handlers_of_keyword[name] = handlers
        return handlers

    def _deliver_calls(self, unit: Unit, deliver: _Deliver) -> None:
        names, module = unit.semantics.names, unit.semantics.module
        for index in unit.indexes:
            others = index.aliases | module.other_names_called(index.part)
            for call in index.all(ast.Call):
                function = call.func
                if isinstance(function, ast.Attribute):
                    tail = function.attr
                    handlers = self._methods.get(tail)
                    if handlers is not None:
                        deliver(handlers, call)
                    if tail not in self._tails:
                        continue
                elif isinstance(function, ast.Name):
                    tail = function.id
                    handlers = self._builtins.get(tail)
                    if handlers is not None:
                        deliver(handlers, call)
                    if tail not in self._tails and tail not in others:
                        continue
                else:
                    continue
                resolved = names(function)
                if not resolved:
                    continue
                for handlers in self._handlers_of(resolved):
                    deliver(handlers, call)

    def _deliver_references(self, unit: Unit, deliver: _Deliver) -> None:
        wanted = self._references
        imported = unit.semantics.module.imported_from(self._referred)
        for index in unit.indexes:
            for node in index.all(ast.Attribute):
                if node.attr in wanted and isinstance(node.ctx, ast.Load):
                    deliver(wanted[node.attr], node)
            local = imported_names(index, self._referred)
            tails = {**imported, **local} if local else imported
            if tails:
                for name in index.all(ast.Name):
                    if name.id in tails and isinstance(name.ctx, ast.Load):
                        deliver(wanted[tails[name.id]], name)

    def _handlers_of(self, resolved: frozenset[str]) -> Iterator[list[_Handler]]:
        """The handlers that want every one of the names that a call can have."""
        lists = [self._calls.get(name, []) for name in resolved]
        if len(lists) == 1:
            if lists[0]:
                yield lists[0]
        else:
            common = [handler for handler in lists[0] if all(handler in other for other in lists[1:])]
            if common:
                yield common
