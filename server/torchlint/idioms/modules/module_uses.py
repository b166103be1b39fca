"""Where a module goes after it was built: what is asked of it, and whether code that cannot be seen may get hold of it.

``uses_of`` follows the object through names, attributes of ``self``, wrappers, and arguments of functions of the file.
"""

from __future__ import annotations

import ast
import re
from dataclasses import field

from torchlint.frozen import dataclass
from torchlint.idioms.modules.module_looks import LOOKS, only_counts, only_looks
from torchlint.idioms.training.parameter_copies import parameter_copies
from torchlint.regex import regex
from torchlint.semantics.call_kinds import MODULE_RETURNS_SELF, WRAPPERS
from torchlint.semantics.class_facts import first_parameter
from torchlint.semantics.classes import self_attributes
from torchlint.semantics.kinds import What
from torchlint.semantics.nodes import enclosing_function, is_static, nodes_within, scope_at
from torchlint.semantics.scopes import Definition, FunctionNode, last_name
from torchlint.semantics.semantics import Semantics
from torchlint.syntax import parent_of

_MOST_PLACES = 400
#: Methods of ``torch.nn.Module`` through which nobody gets at its parameters.
_HARMLESS = frozenset(
    "forward zero_grad state_dict load_state_dict train eval extra_repr __repr__ get_parameter_count".split()
)
_PARAMETERS = ("parameters", "named_parameters")
#: Methods of a module that lead to all of its parts.
_WHOLE = frozenset((*_PARAMETERS, "modules", "named_modules", "children", "named_children", "__dict__"))
#: Methods, of a class that cannot be seen, through which somebody may get at its parameters.
_TELLING = regex(
    r"param|optim|group|module|layers|children|weight|freez|grad|config|load|setup|prepare|getattr|buffer|hook|add_"
)
#: What attributes that are sizes are called, of a class that cannot be seen.
_SIZES = regex(r"(^|_)(shape|size|dims?|length|classes)$|^(in|out|num|n)_(features|channels)$")
#: Functions that get at attributes by their names.
_BY_TEXT = frozenset(("getattr", "setattr", "attrgetter", "get_submodule", "get_parameter", "rgetattr"))
#: What is applied to all layers of a module that is new.
_INITIALISES = regex(r"init|weight|kaiming|xavier|normal|orthogonal", re.IGNORECASE)
_PLAIN = frozenset((What.NUMBER, What.TEXT, What.DEVICE, What.DTYPE, What.NONE))


@dataclass(eq=False, slots=True)
class Uses:
    """``methods``: the names of the methods that are called on the object; ``names``: the names it is held under;
    ``overwritten``: whether parameters of another module are averaged into its own; ``escapes``: whether something else
    may have been done to it."""

    methods: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    overwritten: bool = False
    escapes: bool = False


def uses_of(semantics: Semantics, build: ast.Call) -> Uses:
    """What the file does with the module that a call builds."""
    search = _Search(semantics)
    search.follow(build)
    return search.uses


class _Search:
    def __init__(self, semantics: Semantics) -> None:
        self._semantics = semantics
        self._queue: list[ast.expr] = []
        self._seen: set[ast.AST] = set()
        self._held: set[tuple[ast.AST | None, str]] = set()
        self._owner: ast.ClassDef | None = None
        self.uses = Uses()

    def follow(self, build: ast.Call) -> None:
        kind = self._semantics.kind(build)
        self._owner = kind.class_node if kind is not None else None
        if self._looks_into_self():
            self._escape()
        self._queue.append(build)
        while self._queue and not self.uses.escapes:
            place = self._queue.pop()
            if place not in self._seen:
                self._seen.add(place)
                self._place(place)
                if len(self._seen) > _MOST_PLACES:
                    self._escape()

    def _escape(self) -> None:
        self.uses.escapes = True

    def _looks_into_names(self, function: FunctionNode | None) -> bool:
        """Whether the names of a function, or those of the module, may be read as a whole."""
        module = self._semantics.module
        if function is None:
            return module.reads_name("globals") or module.reads_name("locals")
        return any(getattr(name, "id", "") == "locals" for name in nodes_within(function, ast.Name))

    def _looks_into_self(self) -> bool:
        """``vars(self)`` and ``vars()``; ``vars(args)`` looks into something else."""
        calls = self._semantics.module.calls_of("vars")
        return any(not call.args or self._semantics.class_of_self(call.args[0]) is not None for call in calls)

    # -- one place where the object stands ----------------------------------------------------------------------------

    def _place(self, node: ast.expr) -> None:
        holder = parent_of(node)
        match holder:
            case ast.Assign(targets=targets, value=value) if value is node:
                for target in targets:
                    self._hold(target)
            case ast.AnnAssign(target=target, value=value) if value is node:
                self._hold(target)
            case ast.NamedExpr(target=target):
                self._hold(target)
                self._queue.append(holder)
            case ast.Attribute():
                self._attribute(holder)
            case ast.Call(func=function) if function is node:
                pass
            case ast.Call():
                self._given(holder, node, None)
            case ast.keyword(arg=str(name)):
                call = parent_of(holder)
                if isinstance(call, ast.Call):
                    self._given(call, node, name)
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                self._display(holder, elements.index(node))
            case ast.Dict():
                call = parent_of(holder)
                if not isinstance(call, ast.Call) or not only_looks(self._semantics, call):
                    self._escape()
            case ast.IfExp(test=test) if test is not node:
                self._queue.append(holder)
            case ast.Return():
                self._returned(holder)
            case ast.Expr() | ast.Compare() | ast.FormattedValue() | ast.If() | ast.While() | ast.IfExp():
                pass
            case _:
                self._escape()

    def _display(self, display: ast.Tuple | ast.List, position: int) -> None:
        """``for net in (enc, dec): ...`` and ``a, b = enc, dec``."""
        match parent_of(display):
            case ast.For(target=ast.Name() as target, iter=source) if source is display:
                self._hold(target)
            case ast.Assign(targets=[ast.Tuple(elts=targets)]) if len(targets) == len(display.elts):
                self._hold(targets[position])
            case ast.Return() as statement:
                self._returned_among(statement, position, len(display.elts))
            case _:
                self._escape()

    def _returned_among(self, statement: ast.Return, position: int, count: int) -> None:
        """``return enc, dec``, which every call unpacks."""
        function = enclosing_function(statement)
        callers = self._semantics.callers(function) if function is not None else ()
        for call in callers:
            match parent_of(call):
                case ast.Assign(targets=[ast.Tuple(elts=targets)], value=value) if value is call:
                    if len(targets) != count or any(isinstance(target, ast.Starred) for target in targets):
                        self._escape()
                        return
                    self._hold(targets[position])
                case _:
                    self._escape()
        if not callers:
            self._escape()

    def _returned(self, statement: ast.Return) -> None:
        function = enclosing_function(statement)
        callers = self._semantics.callers(function) if function is not None else ()
        self._queue.extend(callers)
        if not callers:
            self._escape()

    # -- what is asked of the object ----------------------------------------------------------------------------------

    def _attribute(self, attribute: ast.Attribute) -> None:
        call = parent_of(attribute)
        name = attribute.attr
        if not isinstance(call, ast.Call) or call.func is not attribute:
            if not self._is_plain(attribute):
                self._escape()
            return
        self.uses.methods.add(_as_called(name, call))
        if name in MODULE_RETURNS_SELF:
            if name == "apply" and not _INITIALISES.search(last_name(call.args[0]) if call.args else ""):
                self._escape()
            self._queue.append(call)
        elif name in _PARAMETERS:
            if not only_counts(self._semantics, call) and not self._is_copied(attribute.value):
                self._escape()
        elif name not in _HARMLESS and not self._is_harmless_method(name):
            self._escape()

    def _is_copied(self, node: ast.expr) -> bool:
        """Whether parameters are asked for only to copy or average them into another module, or from another one."""
        for copy in parameter_copies(self._semantics):
            if copy.target is node:
                self.uses.overwritten = True
                return True
            if copy.source is node:
                return True
        return False

    def _is_plain(self, attribute: ast.Attribute) -> bool:
        """Whether an attribute of the object holds nothing that could be trained."""
        if attribute.attr in ("training", "__class__"):
            return True
        if self._owner is None:
            return bool(_SIZES.search(attribute.attr))
        if self._semantics.find_method(self._owner, attribute.attr) is not None:
            return False
        kind = self._semantics.attribute_kind(self._owner, attribute.attr)
        if kind is not None and kind.what is What.TUPLE and isinstance(kind.node, ast.Tuple):
            return all(map(self._is_number, kind.node.elts))
        return kind is not None and kind.what in _PLAIN

    def _is_number(self, element: ast.expr) -> bool:
        """Whether an element of a tuple is a number, or a part of a size."""
        if isinstance(element, ast.BinOp | ast.UnaryOp):
            return True
        kind = self._semantics.kind(element)
        return kind is not None and kind.what in _PLAIN

    def _is_harmless_method(self, name: str) -> bool:
        if self._owner is None:
            return not _TELLING.search(name)
        method = self._semantics.find_method(self._owner, name)
        if method is None or any(_TELLING.search(inner.attr) for inner in _called_attributes(method)):
            return False
        returned = self._semantics.returned_values(method)
        return not any(self._semantics.class_of_self(value) is not None for value in returned)

    # -- arguments ----------------------------------------------------------------------------------------------------

    def _given(self, call: ast.Call, node: ast.expr, keyword: str | None) -> None:
        semantics = self._semantics
        if only_looks(semantics, call):
            return
        if semantics.is_named(call.func, *WRAPPERS) and call.args and call.args[0] is node:
            self._queue.append(call)
            return
        function = self._function_called(call)
        parameter = _parameter(call, function, node, keyword) if function is not None else None
        if function is None or parameter is None:
            self._escape()
        else:
            self.uses.names.add(parameter.arg)
            self._reads_in(function, parameter.arg, function)

    def _function_called(self, call: ast.Call) -> FunctionNode | None:
        semantics = self._semantics
        function = semantics.local_function(call.func)
        if function is not None:
            return function
        owner = semantics.local_class(call.func)
        if owner is not None:
            return None if semantics.is_module_class(owner) else semantics.find_method(owner, "__init__")
        if not isinstance(call.func, ast.Attribute):
            return None
        owner = semantics.class_of_self(call.func.value)
        if owner is None:
            kind = semantics.kind(call.func.value)
            owner = kind.class_node if kind is not None else None
        return semantics.find_method(owner, call.func.attr) if owner is not None else None

    # -- what holds the object ----------------------------------------------------------------------------------------

    def _hold(self, target: ast.expr) -> None:
        match target:
            case ast.Name(id=name):
                self.uses.names.add(name)
                if name in scope_at(target).outer_names:
                    self._escape()
                else:
                    self._reads_in(enclosing_function(target), name, target)
            case ast.Attribute(value=base, attr=name):
                owner = self._semantics.class_of_self(base)
                if owner is None or not self._keeps_private(owner, name):
                    self._escape()
                else:
                    self.uses.names.add(name)
                    self._reads_of_attribute(owner, name)
            case _:
                self._escape()

    def _reads_in(self, function: FunctionNode | None, name: str, key: ast.AST) -> None:
        """Note the reads of a name in its function, or of a name of the module in the file."""
        holder = (function, name)
        if holder in self._held:
            return
        self._held.add(holder)
        if self._looks_into_names(function):
            self._escape()
        names = nodes_within(function, ast.Name) if function is not None else self._semantics.module.uses_of_name(name)
        for use in names:
            if isinstance(use, ast.Name) and use.id == name and isinstance(use.ctx, ast.Load):
                bindings = self._semantics.bindings(use)
                if not bindings or any(_scope_of(binding) is function for binding in bindings):
                    self._queue.append(use)

    def _reads_of_attribute(self, owner: ast.ClassDef, name: str) -> None:
        if (owner, name) in self._held:
            return
        self._held.add((owner, name))
        for holder in (owner, *self._semantics.local_bases(owner)):
            for method in self._semantics.module.methods(holder):
                for use in self_attributes(method):
                    if use.attr == name and isinstance(use.ctx, ast.Load):
                        self._queue.append(use)

    def _keeps_private(self, owner: ast.ClassDef, name: str) -> bool:
        """Whether only the methods of a class can get at an attribute of ``self``."""
        semantics = self._semantics
        module = semantics.module
        if semantics.has_unknown_base(owner) or module.is_base(owner.name):
            return False
        if semantics.is_module_class(owner) and not self._trains_itself(owner):
            return False
        by_text = module.mentions_any_call(_BY_TEXT)
        if module.reads_attribute(name, of_others=True, by_text=by_text) or module.reads_attribute("__dict__"):
            return False
        if any(call.args and semantics.class_of_self(call.args[0]) is owner for call in module.calls_of("getattr")):
            return False
        holders = (owner, *semantics.local_bases(owner))
        return not any(gives_self(method) for holder in holders for method in module.methods(holder))

    def _trains_itself(self, owner: ast.ClassDef) -> bool:
        """Whether a class of modules has an optimizer of its own, and nothing takes its parameters as a whole."""
        semantics = self._semantics
        holders = (owner, *semantics.local_bases(owner))
        names = [(holder, name) for holder in holders for name in semantics.module.attributes(holder)]
        kinds = [semantics.attribute_kind(holder, name) for holder, name in names]
        if not any(kind is not None and kind.what is What.OPTIMIZER for kind in kinds):
            return False
        methods = [method for holder in holders for method in semantics.module.methods(holder)]
        if any(use.attr in _WHOLE for method in methods for use in self_attributes(method)):
            return False
        asked = [call.func for name in _PARAMETERS for call in semantics.module.calls_of(name)]
        given = [semantics.kind(function.value) for function in asked if isinstance(function, ast.Attribute)]
        return not any(kind is not None and kind.class_node is owner for kind in given)


def _as_called(name: str, call: ast.Call) -> str:
    """A method's name; ``eval`` for ``train(False)``."""
    match call.args:
        case [ast.Constant(value=False)] if name == "train":
            return "eval"
        case _:
            return name


def _scope_of(definition: Definition) -> FunctionNode | None:
    node = definition.node
    if isinstance(node, ast.arg):
        holder = parent_of(parent_of(node) or node)
        return holder if isinstance(holder, ast.FunctionDef | ast.AsyncFunctionDef) else None
    return enclosing_function(node)


def _parameter(call: ast.Call, function: FunctionNode, node: ast.expr, keyword: str | None) -> ast.arg | None:
    """The parameter that receives an argument of a call."""
    named = [*function.args.posonlyargs, *function.args.args]
    if keyword is not None:
        return next((item for item in (*named, *function.args.kwonlyargs) if item.arg == keyword), None)
    if node not in call.args or any(isinstance(item, ast.Starred) for item in call.args):
        return None
    if isinstance(parent_of(function), ast.ClassDef) and not is_static(function):
        named = named[1:]
    position = call.args.index(node)
    return named[position] if position < len(named) else None


def gives_self(method: FunctionNode) -> bool:
    """Whether a method gives ``self`` away as a whole."""
    own = first_parameter(method) if not is_static(method) else None
    for name in nodes_within(method, ast.Name):
        if isinstance(name, ast.Name) and name.id == own and isinstance(parent_of(name), ast.Call | ast.keyword):
            call = parent_of(name)
            if not isinstance(call, ast.Call) or getattr(call.func, "id", "") not in ("super", *LOOKS):
                return True
    return False


def _called_attributes(method: FunctionNode) -> list[ast.Attribute]:
    return [node for node in nodes_within(method, ast.Attribute) if isinstance(node, ast.Attribute)]
