"""Places in a module that name a CUDA device in so many words: ``x.cuda()``, ``.to("cuda:0")``, ``device="cuda"``."""

from __future__ import annotations

import ast
import re

from torchlint.frozen import dataclass
from torchlint.regex import regex
from torchlint.semantics.kinds import What
from torchlint.semantics.literals import literal_of
from torchlint.semantics.nodes import argument, enclosing_class, enclosing_function, has_unknown_arguments, nodes_within
from torchlint.semantics.scopes import FunctionNode
from torchlint.semantics.semantics import Semantics
from torchlint.syntax import parent_of

_CUDA = regex(r"cuda(:\d+)?")
#: A test of one of these says that the author thought of where the code runs.
_ASKS = regex(r"cuda|gpu|device|cpu|is_available|is_scripting|is_tracing|is_exporting|backend", re.IGNORECASE)
#: Methods that are about the device: who calls them wants CUDA.
_MOVERS = regex(r"cuda|gpu|device|^to$|^_apply$|export|onnx|trace|benchmark|profile", re.IGNORECASE)
#: Modules that are there to put others on devices, or to take them elsewhere.
_SPREAD = regex(r"cuda|gpu|device|parallel|distributed|export|onnx|tensorrt|trt", re.IGNORECASE)
_NEEDS_CUDA = frozenset(
    f"torch.cuda.{name}" for name in ("set_device", "current_device", "get_device_properties", "Stream", "stream")
)
_MOVED_THINGS = (What.TENSOR, What.PARAMETER, What.MODULE, What.LOSS)
_MOVES = ("cuda", "to")


@dataclass(frozen=True, eq=False, slots=True)
class HardCodedDevice:
    """``node`` names the device: the call ``x.cuda()`` or ``x.to("cuda")``, the text of ``device="cuda"``, or
    ``torch.device("cuda")``. ``method`` is the method of the module class ``owner`` in which it stands."""

    node: ast.expr
    method: FunctionNode
    owner: ast.ClassDef

    @property
    def move(self) -> ast.Call | None:
        """The place as a call that moves something."""
        if isinstance(self.node, ast.Call) and isinstance(self.node.func, ast.Attribute):
            return self.node if self.node.func.attr in _MOVES else None
        return None


def hard_coded_move(semantics: Semantics, call: ast.Call) -> HardCodedDevice | None:
    """``x.cuda()``, ``x.cuda(0)`` or ``x.to("cuda")`` in a method of a module; None for anything else, and where the
    code asks what it runs on."""
    if not _is_cuda_move(semantics, call):
        return None
    assert isinstance(call.func, ast.Attribute)
    kind = semantics.kind(call.func.value)
    if kind is not None and kind.what not in _MOVED_THINGS:
        return None
    return _in_module(semantics, call)


def hard_coded_argument(semantics: Semantics, keyword: ast.keyword) -> HardCodedDevice | None:
    """``device="cuda"`` in a call of torch, in a method of a module."""
    call = parent_of(keyword)
    if not _is_cuda_text(keyword.value) or not isinstance(call, ast.Call):
        return None
    named = any(name.startswith("torch.") for name in semantics.names(call.func))
    if not named and not (isinstance(call.func, ast.Attribute) and call.func.attr.startswith("new_")):
        return None
    return _in_module(semantics, keyword.value)


def hard_coded_object(semantics: Semantics, call: ast.Call) -> HardCodedDevice | None:
    """``torch.device("cuda")`` in a method of a module, unless it is compared or a context."""
    if len(call.args) + len(call.keywords) != 1 or not _is_cuda_text(argument(call, 0, "type")):
        return None
    if isinstance(parent_of(call), ast.Compare | ast.withitem):
        return None
    return _in_module(semantics, call)


def _is_cuda_move(semantics: Semantics, call: ast.Call) -> bool:
    if not isinstance(call.func, ast.Attribute) or has_unknown_arguments(call) or semantics.names(call.func):
        return False
    if call.func.attr == "to":
        return _is_cuda_text(argument(call, 0, "device"))
    device = argument(call, 0, "device")
    return call.func.attr == "cuda" and (device is None or isinstance(literal_of(device), int))


def _is_cuda_text(expression: ast.expr | None) -> bool:
    match expression:
        case ast.Constant(value=str(text)):
            return _CUDA.fullmatch(text) is not None
        case _:
            return False


def _in_module(semantics: Semantics, node: ast.expr) -> HardCodedDevice | None:
    method, owner = _method_of(node)
    if method is None or owner is None or not semantics.is_module_class(owner):
        return None
    if _MOVERS.search(method.name) or _SPREAD.search(owner.name) or _is_of_test(owner):
        return None
    if _is_about_cuda(semantics, method) or _is_guarded(node, method) or _uses_several_devices(semantics, owner):
        return None
    callers = semantics.callers(method)
    if callers and all(_is_guarded(call, enclosing_function(call)) for call in callers):
        return None
    return HardCodedDevice(node, method, owner)


def _method_of(node: ast.AST) -> tuple[FunctionNode | None, ast.ClassDef | None]:
    """The method in which a node stands, also inside nested functions, and its class."""
    function = enclosing_function(node)
    while function is not None:
        holder = parent_of(function)
        if isinstance(holder, ast.ClassDef):
            return function, holder
        function = enclosing_function(function)
    return None, None


def _is_about_cuda(semantics: Semantics, method: FunctionNode) -> bool:
    """Whether a method asks CUDA or the process group for something else than whether it is there: it needs them."""

    def compute() -> bool:
        calls = (node for node in nodes_within(method, ast.Call) if isinstance(node, ast.Call))
        names = (name for call in calls if isinstance(call.func, ast.Attribute) for name in semantics.names(call.func))
        return any(name in _NEEDS_CUDA or name.startswith("torch.distributed.") for name in names)

    return semantics.module.memo.get(("about cuda", method), compute, False)


def _is_of_test(owner: ast.ClassDef) -> bool:
    """Whether a class is made inside a test, which chooses where it runs."""
    function = enclosing_function(owner)
    holder = enclosing_class(owner)
    names = [item.name for item in (function, holder) if item is not None]
    return any(re.match(r"_?tests?(_|[A-Z])", name) or name.endswith("Test") for name in names)


def _is_guarded(node: ast.AST, function: FunctionNode | None) -> bool:
    """Whether a branch around a node, or one that leaves the function before it, asks about devices."""
    child, holder = node, parent_of(node)
    while holder is not None:
        match holder:
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test) if child is not test:
                if _ASKS.search(ast.unparse(test)):
                    return True
            case ast.BoolOp(values=values) if any(_ASKS.search(ast.unparse(one)) for one in values if one is not child):
                return True
            case ast.Try(body=body, handlers=[_, *_]) if child in body:
                return True
            case ast.Match(subject=subject) if _ASKS.search(ast.unparse(subject)):
                return True
        if holder is function and _leaves_before(function, node):
            return True
        child, holder = holder, parent_of(holder)
    return False


def _leaves_before(function: FunctionNode, node: ast.AST) -> bool:
    """Whether an assertion or an ``if`` that ends in ``return`` or ``raise`` asks about devices before the node."""
    for statement in function.body:
        if statement.lineno >= getattr(node, "lineno", 0):
            return False
        match statement:
            case ast.Assert(test=test) if _ASKS.search(ast.unparse(test)):
                return True
            case ast.If(test=test, body=[*_, ast.Return() | ast.Raise()]) if _ASKS.search(ast.unparse(test)):
                return True
    return False


def _uses_several_devices(semantics: Semantics, owner: ast.ClassDef) -> bool:
    """Whether methods of a class name more than one CUDA device: its parts are spread on purpose."""

    def compute() -> bool:
        found: set[int] = set()
        for method in semantics.module.methods(owner):
            for node in nodes_within(method, ast.Constant, ast.Call):
                match node:
                    case ast.Constant(value=str(text)) if re.fullmatch(r"cuda:\d+", text):
                        found.add(int(text[5:]))
                    case ast.Call(func=ast.Attribute(attr="cuda"), args=[ast.Constant(value=int(index))]):
                        found.add(index)
        return len(found) > 1

    return semantics.module.memo.get(("several devices", owner), compute, False)
