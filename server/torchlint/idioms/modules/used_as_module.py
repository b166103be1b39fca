"""Objects of which nothing is known but what the file does with them: whether they can only be whole models."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.semantics.nodes import enclosing_function, nodes_within
from torchlint.semantics.scopes import Binding, FunctionNode, dotted
from torchlint.semantics.semantics import Semantics
from torchlint.syntax import parent_of

#: What only modules have, of the objects that have a training flag.
_TELLING = frozenset(
    "parameters named_parameters state_dict load_state_dict eval named_modules modules children named_children "
    "requires_grad_ zero_grad generate forward".split()
)
#: What puts a module in order before it is used, and gives it back.
_PASSING_ON = frozenset("to cuda cpu half float bfloat16 double".split())
_MODES = frozenset(("eval", "train"))
_WITHOUT_GRAD = ("torch.no_grad", "torch.inference_mode", "torch.autograd.no_grad")
_GIVEN = (Binding.ASSIGNMENT, Binding.PARAMETER, Binding.WITH)


def is_used_as_module(expression: ast.expr, semantics: Semantics) -> bool:
    """Whether an object that code around it trains, saves or runs on data is a module: ``model.parameters()`` is asked
    for, or it is called in a loop or without gradients. Elements of loops do not count: they may be single layers."""
    path = dotted(expression)
    if path is None or not _is_given(expression, semantics):
        return False
    return any(_tells(use, semantics) for use in _uses(path, expression, semantics))


def is_treated_as_module(expression: ast.expr, semantics: Semantics) -> bool:
    """Whether the code around an object does to it what is done to modules alone: asks for its parameters, switches its
    mode, or moves it in place (``net.cuda()`` as a statement, which would do nothing to a tensor). Asked of what is
    called: then it is enough that it was moved."""
    path = dotted(expression)
    if path is None or not _is_given(expression, semantics):
        return False
    owner = semantics.class_of_self(expression.value) if isinstance(expression, ast.Attribute) else None
    if owner is not None and isinstance(expression, ast.Attribute):
        if semantics.find_method(owner, expression.attr) is not None:
            return False
        written = [write.value for write in semantics.module.attribute_writes(owner, expression.attr)]
        if len(written) == 1 and (_is_moved(written[0]) or _is_treated(written[0], semantics)):
            return True
    elif isinstance(expression, ast.Name):
        bound = [found.value for found in semantics.definitions(expression) if not found.path]
        if bound and all(map(_is_moved, bound)):
            return True
    return any(_is_done_to_modules(use) for use in _uses(path, expression, semantics))


def _is_treated(value: ast.expr | None, semantics: Semantics) -> bool:
    return isinstance(value, ast.Name) and is_treated_as_module(value, semantics)


def _is_moved(value: ast.expr | None) -> bool:
    """Whether a value that is called later is ``something.to(...)``, ``something.cuda().eval()`` and the like: what can
    be moved and called is a module."""
    moved = False
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        method = value.func.attr
        if method not in _PASSING_ON | _MODES:
            return False
        moved = moved or method in ("to", "cuda") or (method in _MODES and not value.args)
        value = value.func.value
    return moved


def _is_done_to_modules(use: ast.expr) -> bool:
    """``net.eval()``, ``net.to(device).eval()``, or ``net.cuda()`` whose result nothing takes."""
    method, call = parent_of(use), None
    while isinstance(method, ast.Attribute):
        call = parent_of(method)
        if not isinstance(call, ast.Call) or call.func is not method:
            return False
        if method.attr in _TELLING or (method.attr == "train" and not call.args):
            return True
        if method.attr not in _PASSING_ON:
            return False
        method = parent_of(call)
    return call is not None and isinstance(method, ast.Expr)


def _is_given(expression: ast.expr, semantics: Semantics) -> bool:
    root = expression
    while isinstance(root, ast.Attribute):
        root = root.value
    if not isinstance(root, ast.Name):
        return False
    return root is not expression or all(item.kind in _GIVEN for item in semantics.definitions(root))


def _uses(path: str, expression: ast.expr, semantics: Semantics) -> Iterator[ast.expr]:
    """The same object in the same function; in all methods of the class for what is kept on ``self``."""
    function = enclosing_function(expression)
    roots: list[ast.AST] = [function] if function is not None else []
    owner = semantics.class_of_self(expression.value) if isinstance(expression, ast.Attribute) else None
    if owner is not None:
        roots = list(semantics.module.methods(owner))
    elif function is None:
        roots = [statement for part in semantics.module.own_code() for statement in part.body]
    for root in roots:
        for node in nodes_within(root, type(expression)):
            if node is not expression and isinstance(node, ast.expr) and dotted(node) == path:
                yield node


def _tells(use: ast.expr, semantics: Semantics) -> bool:
    parent = parent_of(use)
    if isinstance(parent, ast.Attribute) and parent.attr in _TELLING:
        call = parent_of(parent)
        return isinstance(call, ast.Call) and call.func is parent
    if not isinstance(parent, ast.Call) or parent.func is not use or not (parent.args or parent.keywords):
        return False
    return _is_run_on_data(parent, semantics)


def _is_run_on_data(call: ast.Call, semantics: Semantics) -> bool:
    """Whether a call stands in a loop, or where no gradients are kept."""
    current = parent_of(call)
    while current is not None and not isinstance(current, FunctionNode | ast.Lambda):
        if isinstance(current, ast.For | ast.AsyncFor):
            return True
        managers = [item.context_expr for item in current.items] if isinstance(current, ast.With) else []
        if any(_is_without_grad(manager, semantics) for manager in managers):
            return True
        current = parent_of(current)
    if isinstance(current, ast.FunctionDef):
        return any(_is_without_grad(decorator, semantics) for decorator in current.decorator_list)
    return False


def _is_without_grad(expression: ast.expr, semantics: Semantics) -> bool:
    called = expression.func if isinstance(expression, ast.Call) else expression
    return semantics.is_named(called, *_WITHOUT_GRAD)
