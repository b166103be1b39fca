"""The batch normalization inside a module, by its class; and code that asks for it layer by layer."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint import torch_api
from torchlint.idioms.modules.members import module_iterator
from torchlint.regex import regex
from torchlint.semantics.kinds import Kind
from torchlint.semantics.nodes import nodes_within
from torchlint.semantics.scopes import FunctionNode
from torchlint.semantics.semantics import Semantics
from torchlint.syntax import parent_of

_BATCH_NORMS = regex(r"^torch\.nn\.(Lazy)?(BatchNorm[123]d|SyncBatchNorm)$")
#: Models of torchvision that have batch normalization (torchvision 0.28).
_WITH_BATCH_NORM = regex(
    r"^torchvision\.models\.(?!.*swin|.*vit)(.*\.)?(resnet|resnext|wide_resnet|densenet|mobilenet|mnasnet|inception"
    r"|googlenet|shufflenet|efficientnet|regnet|vgg\d+_bn)"
)


def batch_norm_in(semantics: Semantics, kind: Kind | None) -> str:
    """The class of a batch normalization that a module certainly has ("BatchNorm2d"); empty if none is certain, or if
    the module has a ``train`` of its own."""
    return _batch_norm(semantics, kind, set())


def evaluated_norms(semantics: Semantics, switch: ast.Call) -> ast.Call | None:
    """The call of ``net.modules()`` of the loop in which ``switch`` puts the batch normalization of ``net``, and
    nothing else, into evaluation mode; None for anything else."""
    match switch:
        case ast.Call(func=ast.Attribute(value=ast.Name() as layer, attr="eval"), args=[]):
            pass
        case _:
            return None
    if module_iterator(layer, semantics) not in ("modules", "named_modules") or not _is_asked_for(layer, switch):
        return None
    sources = {definition.value for definition in semantics.definitions(layer)}
    source = sources.pop() if len(sources) == 1 else None
    return source if isinstance(source, ast.Call) else None


def evaluates_norms(function: FunctionNode) -> bool:
    """Whether a function for ``net.apply`` puts batch normalization into evaluation mode, and nothing else."""
    if not function.args.args:
        return False
    given = function.args.args[0].arg
    for call in nodes_within(function, ast.Call):
        match call:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name) as layer, attr="eval"), args=[]) if name == given:
                if _is_asked_for(layer, call):
                    return True
    return False


def _is_asked_for(layer: ast.Name, switch: ast.AST) -> bool:
    """Whether what runs ``switch`` only for batch normalization is a test of the layer, or of its class name."""
    current = parent_of(switch)
    inner: ast.AST = switch
    while current is not None and not isinstance(current, ast.For | ast.FunctionDef | ast.AsyncFunctionDef):
        if isinstance(current, ast.If) and inner in current.body and "BatchNorm" in (text := ast.unparse(current.test)):
            return "not " not in text and "== -1" not in text
        inner, current = current, parent_of(current)
    return False


def _batch_norm(semantics: Semantics, kind: Kind | None, seen: set[ast.AST]) -> str:
    """The batch normalization in a module, by its class; empty if none is certain."""
    if kind is None or len(seen) > 20:
        return ""
    if kind.class_node is not None:
        if kind.class_node in seen:
            return ""
        seen.add(kind.class_node)
        if semantics.find_method(kind.class_node, "train") is not None:
            return ""
        for method in semantics.module.methods(kind.class_node):
            found = _among(semantics, nodes_within(method, ast.Call), seen)
            if found:
                return found
        return ""
    if _WITH_BATCH_NORM.match(kind.origin) and torch_api.is_torchvision_model(kind.origin):
        given = kind.node.keywords if isinstance(kind.node, ast.Call) else []
        return "" if any(keyword.arg in ("norm_layer", None) for keyword in given) else "BatchNorm2d"
    return _among(semantics, nodes_within(kind.node, ast.Call), seen) if isinstance(kind.node, ast.Call) else ""


def _among(semantics: Semantics, calls: Iterator[ast.AST], seen: set[ast.AST]) -> str:
    for call in calls:
        if not isinstance(call, ast.Call):
            continue
        if isinstance(call.func, ast.Attribute) and call.func.attr == "children":  # Sequential(*net.children())
            if found := _batch_norm(semantics, semantics.kind(call.func.value), seen):
                return found
            continue
        name = semantics.name(call.func)
        if _BATCH_NORMS.match(name):
            return name.rpartition(".")[2]
        if name.startswith(".") or torch_api.is_torchvision_model(name):
            node = semantics.local_class(call.func)
            if node is None or node not in seen:
                kind = semantics.kind(call)
                if kind is not None and kind.is_module and (kind.class_node is not None or kind.node is call):
                    found = _batch_norm(semantics, kind, seen) if kind.class_node is not None else ""
                    found = found or ("BatchNorm2d" if _WITH_BATCH_NORM.match(name) else "")
                    if found:
                        return found
    return ""
