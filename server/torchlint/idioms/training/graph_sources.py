"""Where the autograd graph of a value leads: the calls of modules in it, and the names through which it passes.

``sources_of`` follows only what certainly keeps the graph: arithmetic, functions and methods of tensors, losses, layers
of torch, and functions and ``forward`` methods of the file, element by element of what they return.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Container
from dataclasses import field

from torchlint import torch_api
from torchlint.frozen import dataclass
from torchlint.idioms.training.grad_mode import GradMode, grad_mode_at
from torchlint.idioms.training.graph_cuts import CUTTING_FUNCTIONS, CUTTING_METHODS
from torchlint.regex import regex
from torchlint.semantics.kinds import What
from torchlint.semantics.nodes import argument, contains, enclosing_function, position_of_parameter
from torchlint.semantics.scopes import Binding, Definition, FunctionNode, last_name
from torchlint.semantics.semantics import Semantics
from torchlint.syntax import parent_of

_DEEPEST = 40
_MOST_FRAMES = 5
Path = tuple[int | None, ...]
#: Builtins that give what they are given.
_PASSING = frozenset(("sum", "tuple", "list", "reversed", "sorted", "max", "min", "abs", "dict", "zip"))
_LOSS_NAME = regex(r"crit|loss|objective|bce$|mse$", re.IGNORECASE)
_CUT_NAMES = frozenset(("torch.tensor", "torch.autograd.Variable", "torch.no_grad", "torch.nn.Parameter"))


@dataclass(eq=False, slots=True)
class Sources:
    """``calls``: calls of modules, without those that a module of the file makes in its ``forward``; ``uses``: names,
    and attributes of ``self``, that were read on the way; ``operations``: all calls and arithmetic that the graph may
    pass through. All in the order in which they were met."""

    calls: dict[ast.Call, None] = field(default_factory=dict)
    operations: dict[ast.Call | ast.BinOp, None] = field(default_factory=dict)
    uses: dict[ast.Name | ast.Attribute, None] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, slots=True)
class _Frame:
    """A function of the file that is being followed, and the call that led into it."""

    function: FunctionNode
    call: ast.Call
    outer: _Frame | None
    depth: int
    #: Whether this is the ``forward`` of a module, or called by one.
    in_module: bool = False


def sources_of(
    semantics: Semantics,
    expression: ast.expr,
    path: Path = (),
    *,
    entered: ast.Call | None = None,
    trained: Container[ast.Call] = (),
) -> Sources:
    """The sources of the element of a value that ``path`` leads to (the whole: no path); ``entered``: the call by which
    the function of the expression runs, so that its parameters are what is given there; ``trained``: calls that are
    known to be of modules for another reason than their kind."""
    follower = _Follower(semantics, trained)
    function = enclosing_function(expression)
    frame = _Frame(function, entered, None, 0) if entered is not None and function is not None else None
    follower.value(expression, path, frame)
    return follower.found


class _Follower:
    def __init__(self, semantics: Semantics, trained: Container[ast.Call]) -> None:
        self._semantics = semantics
        self._trained = trained
        self.found = Sources()
        self._seen: set[tuple[ast.AST, Path, _Frame | None]] = set()
        self._depth = 0

    def value(self, expression: ast.expr, path: Path, frame: _Frame | None) -> None:
        key = (expression, path, frame)
        if key in self._seen or self._depth > _DEEPEST:
            return
        self._seen.add(key)
        self._depth += 1
        self._value(expression, path, frame)
        self._depth -= 1

    def _value(self, expression: ast.expr, path: Path, frame: _Frame | None) -> None:
        match expression:
            case ast.Name():
                self._name(expression, path, frame)
            case ast.NamedExpr(value=value) | ast.Starred(value=value):
                self.value(value, path, frame)
            case ast.Attribute(value=value, attr=attribute):
                if self._semantics.class_of_self(value) is not None:
                    self.found.uses[expression] = None
                elif attribute not in ("data", "grad", "shape", "dtype", "device") and not self._is_module(value):
                    self.value(value, (), frame)
            case ast.UnaryOp(operand=operand):
                self.value(operand, path, frame)
            case ast.BinOp(left=left, right=right):
                if self._is_recorded(expression):
                    self.found.operations[expression] = None
                    self.value(left, (), frame)
                    self.value(right, (), frame)
            case ast.IfExp(body=body, orelse=orelse):
                self.value(body, path, frame)
                self.value(orelse, path, frame)
            case ast.Subscript(value=value, slice=index):
                place = index.value if isinstance(index, ast.Constant) else None
                self.value(value, (place, *path) if isinstance(place, int) else (), frame)
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                if path and path[0] is not None and -len(elements) <= path[0] < len(elements):
                    self.value(elements[path[0]], path[1:], frame)
                else:
                    for element in elements:
                        self.value(element, (), frame)
            case ast.ListComp() | ast.GeneratorExp():
                self._comprehension(expression, path, frame)
            case ast.Call() if self._is_recorded(expression):
                self.found.operations[expression] = None
                self._call(expression, path, frame)

    def _comprehension(self, made: ast.ListComp | ast.GeneratorExp, path: Path, frame: _Frame | None) -> None:
        """``[f(x) for x in xs]``, whose i-th element comes from the i-th of ``xs``."""
        self.value(made.elt, path[1:], frame)
        for generator in made.generators:
            names = {node.id for node in ast.walk(generator.target) if isinstance(node, ast.Name)}
            if any(
                isinstance(use, ast.Name) and use.id in names and contains(made.elt, use) for use in self.found.uses
            ):
                paired = len(made.generators) == 1 and not generator.ifs and isinstance(generator.target, ast.Name)
                self.value(generator.iter, path[:1] if paired else (), frame)

    def _is_recorded(self, node: ast.AST) -> bool:
        return grad_mode_at(self._semantics, node).mode in (GradMode.ON, GradMode.AS_CALLED)

    def _is_module(self, expression: ast.expr) -> bool:
        kind = self._semantics.kind(expression)
        return kind is not None and kind.is_module

    # -- names ------------------------------------------------------------------------------------------------------

    def _name(self, name: ast.Name, path: Path, frame: _Frame | None) -> None:
        if name.id in self._detached_in_place(enclosing_function(name)):
            return
        self.found.uses[name] = None
        for definition in self._semantics.definitions(name):
            self._definition(definition, path, frame)

    def _detached_in_place(self, function: FunctionNode | None) -> set[str]:
        """The names that a function detaches in place: ``h.detach_()``, ``h[0].detach_()``, ``for part in h: ...``."""
        found: set[str] = set()
        for call in self._semantics.module.calls_of("detach_"):
            base = call.func.value if isinstance(call.func, ast.Attribute) else None
            while isinstance(base, ast.Subscript):
                base = base.value
            if not isinstance(base, ast.Name) or enclosing_function(call) is not function:
                continue
            found.add(base.id)
            for definition in self._semantics.definitions(base):
                if definition.kind in (Binding.LOOP, Binding.COMPREHENSION) and isinstance(definition.value, ast.Name):
                    found.add(definition.value.id)
        return found

    def _definition(self, definition: Definition, path: Path, frame: _Frame | None) -> None:
        match definition.kind:
            case Binding.ASSIGNMENT if definition.value is not None:
                self.value(definition.value, (*definition.path, *path), frame)
            case Binding.AUGMENTED if definition.value is not None:
                self.value(definition.value, (), frame)
                if isinstance(definition.node, ast.AugAssign) and isinstance(definition.node.target, ast.Name):
                    self.value(definition.node.target, (), frame)
            case Binding.PARAMETER if isinstance(definition.node, ast.arg) and frame is not None:
                holder = parent_of(definition.node)
                if holder is not None and parent_of(holder) is frame.function:
                    position = position_of_parameter(definition.node, frame.function)
                    given = argument(frame.call, position, definition.node.arg)
                    if given is not None:
                        self.value(given, path, frame.outer)
            case _:
                pass

    # -- calls ------------------------------------------------------------------------------------------------------

    def _call(self, call: ast.Call, path: Path, frame: _Frame | None) -> None:
        semantics = self._semantics
        names = semantics.names(call.func)
        if names:
            name = semantics.name(call.func)
            function = semantics.local_function(call.func)
            if function is not None:
                self._returned(function, call, path, frame)
            elif name.startswith("torch.") and name not in CUTTING_FUNCTIONS and name not in _CUT_NAMES:
                self._given(call, frame)
            return
        if isinstance(call.func, ast.Name) and not semantics.definitions(call.func):
            if call.func.id in _PASSING:
                self._given(call, frame)
            return
        kind = semantics.kind(call.func)
        if kind is not None and kind.what is What.LOSS and kind.class_node is None:
            self._given(call, frame)
        elif kind is None and call in self._trained:
            self._note(call, frame)
            self._given(call, frame)
        elif kind is not None and kind.is_module:
            self._module(call, kind.class_node, kind.origin, path, frame)
        elif kind is None and _LOSS_NAME.search(last_name(call.func)):
            self._objective(call, path, frame)
        elif isinstance(call.func, ast.Attribute):
            self._method(call, call.func, path, frame)

    def _objective(self, call: ast.Call, path: Path, frame: _Frame | None) -> None:
        """``criterion(output, target)`` of which nothing is known: a loss keeps the graph of what it is given."""
        semantics = self._semantics
        owner = semantics.class_of_self(call.func.value) if isinstance(call.func, ast.Attribute) else None
        method = (
            semantics.find_method(owner, call.func.attr) if owner and isinstance(call.func, ast.Attribute) else None
        )
        if method is not None:
            self._returned(method, call, path, frame)
        else:
            self._given(call, frame)

    def _note(self, call: ast.Call, frame: _Frame | None) -> None:
        if frame is None or not frame.in_module:
            self.found.calls[call] = None

    def _given(self, call: ast.Call, frame: _Frame | None) -> None:
        for item in (*call.args, *(keyword.value for keyword in call.keywords)):
            self.value(item, (), frame)

    def _module(
        self, call: ast.Call, owner: ast.ClassDef | None, origin: str, path: Path, frame: _Frame | None
    ) -> None:
        self._note(call, frame)
        forward = self._semantics.find_method(owner, "forward") if owner is not None else None
        if forward is not None:
            self._returned(forward, call, path, frame, in_module=True)
        elif origin.startswith("torch.nn.") or call in self._trained:
            self._given(call, frame)

    def _method(self, call: ast.Call, function: ast.Attribute, path: Path, frame: _Frame | None) -> None:
        semantics, method = self._semantics, function.attr
        owner = semantics.class_of_self(function.value)
        if owner is None:
            kind = semantics.kind(function.value)
            owner = kind.class_node if kind is not None else None
            if kind is not None and kind.is_module and method == "forward":
                self._module(call, owner, kind.origin, path, frame)
                return
        local = semantics.find_method(owner, method) if owner is not None else None
        if local is not None:
            self._returned(local, call, path, frame)
            return
        facts = torch_api.tensor_method(method)
        if owner is None and facts is not None and method not in CUTTING_METHODS and facts.returns != "other":
            self.value(function.value, (), frame)
            self._given(call, frame)

    def _returned(
        self, function: FunctionNode, call: ast.Call, path: Path, frame: _Frame | None, *, in_module: bool = False
    ) -> None:
        depth = frame.depth + 1 if frame is not None else 0
        outer = frame
        while outer is not None:
            if outer.function is function:
                return
            outer = outer.outer
        if depth > _MOST_FRAMES or not self._is_open(function):
            return
        inner = _Frame(function, call, frame, depth, in_module or (frame is not None and frame.in_module))
        for value in self._semantics.returned_values(function):
            self.value(value, path, inner)

    def _is_open(self, function: FunctionNode) -> bool:
        """Whether no decorator turns gradients off in a function, or does something unknown to it."""
        return bool(function.body) and self._is_recorded(function.body[0])
