from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchlint.frozen import dataclass
from torchlint.idioms.surroundings.called_code import code_run_by, function_run_by
from torchlint.idioms.values.tensor_values import TensorValues
from torchlint.regex import regex
from torchlint.rules.base import Diagnosis, Level, Rule, on_method, on_reference
from torchlint.semantics.element_kinds import builtin_called
from torchlint.semantics.nodes import argument, contains, nodes_within
from torchlint.semantics.scopes import FunctionNode
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

_COMPILE = "torch.compile"
_APART = (
    "torch.compiler.disable",
    "torch._dynamo.disable",
    "torch.compiler.allow_in_graph",
    "torch._dynamo.allow_in_graph",
    "torch._dynamo.disallow_in_graph",
    "torch.jit.ignore",
    "torch.jit.script",
)
#: Methods that give one number when they are called without arguments.
_REDUCING = frozenset("sum mean max min norm any all argmax argmin prod std var median amax amin".split())
#: Functions of numpy.random that give one number unless a size is given, and the position of the size. With a size, and
#: without random numbers, NumPy is traced (torch 2.13).
_SIZES = {"rand": 0, "randn": 0, "random": 0, "random_sample": 0, "uniform": 2, "normal": 2, "randint": 2, "choice": 1}
_NEVER_TRACED = frozenset(("shuffle", "permutation", "beta", "binomial"))
_FILES = ("torch.save", "torch.load", "numpy.save", "numpy.load", "numpy.savez", "pickle.dump", "pickle.load")
#: What the author says about running only sometimes.
_SOMETIMES = regex(r"is_compiling|is_dynamo|debug|verbose|log|print|profil", re.IGNORECASE)


@dataclass(frozen=True, eq=False, slots=True)
class _Break:
    node: ast.Call
    why: str


class CompileGraphBreak(Rule):
    """## What it does

    Hints at code that breaks the graph in functions and modules that the file compiles with `torch.compile`: `.item()`,
    `float()` and `int()` of a tensor, `print`, single random numbers of NumPy, and files.

    ## Why is this bad?

    Where `torch.compile` meets something that it cannot trace it ends the graph, runs the line in Python, and begins
    another graph. Each break costs a synchronization or a return to Python, and nothing is fused over it: with many of
    them compiled code is slower than without. Under `fullgraph=True` the line raises. (Checked with torch 2.13; NumPy
    functions as such are traced.)

    ## Example

    ```python
    import torch


    @torch.compile
    def normalize(x: torch.Tensor):
        scale = x.abs().max().item()
        return x / scale
    ```

    ## Use instead

    ```python
    import torch


    @torch.compile
    def normalize(x: torch.Tensor):
        scale = x.abs().max()
        return x / scale
    ```

    ## Exceptions

    Code under `torch.compiler.disable` or behind `torch.compiler.is_compiling()`; `.item()`, `float()` and `int()`
    where the file sets `capture_scalar_outputs`; what runs only in debugging or before an exception is raised.

    ## References

    - [Working with graph breaks](https://docs.pytorch.org/docs/stable/compile/programming_model.graph_breaks_index.html)
    """

    code = "TL707"
    name = "compile-graph-break"
    level = Level.HINT
    summary = "`torch.compile` ends its graph here and goes back to Python."

    @on_reference("compile")
    def check(self, expression: ast.expr, unit: Unit) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        if not semantics.is_named(expression, _COMPILE):
            return
        holder = parent_of(expression)
        call = holder if isinstance(holder, ast.Call) and holder.func is expression else None
        if call is not None and semantics.literal(argument(call, None, "disable")) is True:
            return
        start = _decorated(expression) if call is None else _decorated(call)
        if start is None and call is not None:
            subject = argument(call, 0, "model")
            start = function_run_by(subject, semantics) or _code_before(subject, call, semantics)
        if start is not None:
            yield from self._breaks(start, call, expression, semantics)

    @on_method("compile")
    def check_method(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        model = call.func.value if isinstance(call.func, ast.Attribute) else None
        kind = semantics.kind(model)
        if kind is None or not kind.is_module or kind.class_node is None:
            return
        if semantics.find_method(kind.class_node, "compile") is not None:
            return
        start = semantics.find_method(kind.class_node, "forward")
        if start is not None:
            yield from self._breaks(start, call, call, semantics)

    def _breaks(
        self, start: FunctionNode, call: ast.Call | None, place: ast.AST, semantics: Semantics
    ) -> Iterator[Diagnosis]:
        full = call is not None and semantics.literal(argument(call, None, "fullgraph")) is True
        for function in code_run_by(start, semantics, *_APART):
            for found in _breaks_in(function, semantics):
                shown = ast.unparse(found.node)
                shown = shown if len(shown) < 50 else f"{ast.unparse(found.node.func)}(...)"
                effect = "cannot be traced, and raises under `fullgraph=True`" if full else "breaks the compiled graph"
                message = f"`{shown}` {effect}: {found.why}."
                yield self.found(found.node, message, related=[(place, f"`{start.name}` is compiled here")])


def _code_before(subject: ast.expr | None, call: ast.Call, semantics: Semantics) -> FunctionNode | None:
    """What runs behind ``self.model = torch.compile(self.model)`` or ``step = torch.compile(step)``: what was there
    before."""
    if isinstance(subject, ast.Name):
        others = [found.node for found in semantics.bindings(subject) if found.value is not call]
        return others[0] if len(others) == 1 and isinstance(others[0], ast.FunctionDef) else None
    owner = semantics.class_of_self(subject.value) if isinstance(subject, ast.Attribute) else None
    if owner is None or not isinstance(subject, ast.Attribute):
        return None
    writes = semantics.module.attribute_writes(owner, subject.attr)
    before = [semantics.kind(write.value) for write in writes if write.value is not call]
    kind = before[0] if len(before) == 1 else None
    node = kind.class_node if kind is not None and kind.is_module else None
    return semantics.find_method(node, "forward") if node is not None else None


def _decorated(expression: ast.expr) -> FunctionNode | None:
    """The function that an expression decorates."""
    holder = parent_of(expression)
    if isinstance(holder, ast.FunctionDef | ast.AsyncFunctionDef) and expression in holder.decorator_list:
        return holder
    return None


def _breaks_in(function: FunctionNode, semantics: Semantics) -> Iterator[_Break]:
    captured = semantics.module.writes_attribute_of_others("capture_scalar_outputs")
    values = TensorValues(semantics)
    for call in nodes_within(function, ast.Call):
        if not isinstance(call, ast.Call):
            continue
        why = _reason(call, semantics) or ("" if captured else _reads_number(call, values))
        if why and not _is_exceptional(call, function) and not _is_behind_guard(call, function):
            yield _Break(call, why)


def _reads_number(call: ast.Call, values: TensorValues) -> str:
    """Why a call breaks the graph if it makes a Python number of a tensor."""
    match call:
        case ast.Call(func=ast.Attribute(attr="item", value=value), args=[], keywords=[]):
            kind = values.semantics.kind(value)
            return "it reads a number out of a tensor" if kind is None or kind.is_tensor else ""
        case ast.Call(func=ast.Attribute(attr="tolist", value=value), args=[], keywords=[]):
            return "it reads a number out of a tensor" if _is_reduction(value, values.semantics) else ""
        case ast.Call(func=ast.Name(id="float" | "int" | "bool"), args=[inner]):
            if isinstance(inner, ast.Call) and _is_item(inner):
                return ""
            reads = values.is_number(call) or (
                _is_reduction(inner, values.semantics) and builtin_called(values.semantics, call) is not None
            )
            return "it reads a number out of a tensor" if reads else ""
        case _:
            return ""


def _is_reduction(value: ast.expr, semantics: Semantics) -> bool:
    """Whether a value is one number that a method makes of a whole array, of torch or (which is traced) of NumPy."""
    match value:
        case ast.Call(func=ast.Attribute(attr=attr, value=reduced), args=[], keywords=[]) if attr in _REDUCING:
            kind = semantics.kind(reduced)
            return kind is None or kind.is_tensor
        case _:
            return False


def _is_item(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "item"


def _reason(call: ast.Call, semantics: Semantics) -> str:
    """Why a call breaks the graph whatever it is given."""
    if isinstance(call.func, ast.Name) and call.func.id in ("print", "open") and not semantics.definitions(call.func):
        return "printing happens in Python" if call.func.id == "print" else "files are opened in Python"
    name = semantics.name(call.func)
    if name in _FILES:
        return "files are read and written in Python"
    module, _, last = name.rpartition(".")
    if module == "numpy.random":
        if last in _NEVER_TRACED:
            return "this function of NumPy is not traced"
        if last in _SIZES and len(call.args) <= _SIZES[last] and argument(call, None, "size") is None:
            return "a single random number of NumPy is drawn in Python"
    return ""


def _is_exceptional(call: ast.Call, function: FunctionNode) -> bool:
    """Whether a call runs only for an exception or by a switch for debugging, or not while compiling."""
    child: ast.AST = call
    holder = parent_of(call)
    while holder is not None and child is not function:
        match holder:
            case ast.Raise() | ast.Assert() | ast.ExceptHandler():
                return True
            case ast.If(test=test) | ast.IfExp(test=test) if child is not test:
                is_print = isinstance(call.func, ast.Name) and call.func.id == "print"
                if is_print or _SOMETIMES.search(ast.unparse(test)) or _leads_to_raise(holder, child):
                    return True
            case ast.FunctionDef() if holder is not function:
                return True
        child, holder = holder, parent_of(holder)
    return False


def _is_behind_guard(node: ast.AST, function: FunctionNode) -> bool:
    """Whether a function has returned before a node when it is compiled: ``if is_compiling(): return ...``."""
    for statement in function.body:
        if contains(statement, node):
            return False
        match statement:
            case ast.If(test=ast.Call(func=asked), body=[*_, ast.Return()]) if "compiling" in ast.unparse(asked):
                return True
    return False


def _leads_to_raise(branch: ast.If | ast.IfExp, child: ast.AST) -> bool:
    if not isinstance(branch, ast.If):
        return False
    block = branch.body if child in branch.body else branch.orelse
    return bool(block) and isinstance(block[-1], ast.Raise)
