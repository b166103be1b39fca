"""Tensors that begin as memory was, and whether anything fills them."""

from __future__ import annotations

import ast
import re

from torchlint.idioms.modules.class_decorators import may_be_remade
from torchlint.regex import regex
from torchlint.semantics.classes import ClassView
from torchlint.semantics.kinds import What
from torchlint.semantics.nodes import are_exclusive, contains, enclosing_function, nodes_within, statement_of
from torchlint.semantics.scopes import FunctionNode, last_name
from torchlint.semantics.semantics import Semantics
from torchlint.syntax import parent_of

_EMPTY = frozenset(("torch.empty", "torch.empty_like", "torch.empty_strided", "torch.empty_permuted"))
_TYPES = frozenset(("torch.Tensor", "torch.FloatTensor", "torch.DoubleTensor", "torch.HalfTensor"))
_TYPES_OF_CUDA = frozenset(("torch.cuda.FloatTensor", "torch.cuda.DoubleTensor", "torch.cuda.HalfTensor"))
#: Methods that leave what they are called on as it is, but for its form.
_ASKING = frozenset("shape size dim ndim numel device dtype is_cuda".split())
_KEEPING = frozenset("requires_grad_ to cuda cpu float double half contiguous view reshape squeeze unsqueeze t".split())
#: Ways of a class to reach parameters without their names.
_REACHING = frozenset(
    "parameters named_parameters modules named_modules children named_children apply load_state_dict state_dict"
    " from_pretrained setattr getattr vars _load_from_state_dict create_parameter weight_norm materialize".split()
)
#: Base classes of models whose weights come with ``from_pretrained``.
_LOADED_BASES = ("PreTrainedModel", "ModelMixin", "PyTorchModelHubMixin")
#: Functions and methods that fill a tensor.
_FILLING = (
    "uniform_ normal_ constant_ ones_ zeros_ eye_ dirac_ xavier_uniform_ xavier_normal_ kaiming_uniform_"
    " kaiming_normal_ trunc_normal_ orthogonal_ sparse_ xavier_uniform xavier_normal kaiming_uniform kaiming_normal"
    " orthogonal constant normal uniform zero_ fill_ copy_ random_ exponential_ log_normal_ geometric_ cauchy_"
    " lecun_normal_ variance_scaling_"
).split()
_INITIALISING = regex(r"init|reset|fill|_$|load|copy|assign|set_|xavier|kaiming|glorot|orthogonal", re.IGNORECASE)
_RUNNING = regex(r"forward|__call__|^compute|^call$")


def leaves_memory_as_it_is(call: ast.Call, semantics: Semantics) -> bool:
    """Whether a call makes a tensor of floats without filling it: ``torch.empty(3)``, ``torch.Tensor(3, 4)``."""
    while isinstance(call.func, ast.Attribute) and call.func.attr in _KEEPING and isinstance(call.func.value, ast.Call):
        call = call.func.value
    if any(item.arg in ("dtype", "device") and _is_special(item.value, semantics) for item in call.keywords):
        return False
    name = semantics.name(call.func)
    if name in _EMPTY:
        return True
    if name in _TYPES or name in _TYPES_OF_CUDA:
        return _are_sizes(call, semantics)
    return isinstance(call.func, ast.Attribute) and call.func.attr == "new_empty" and not name


def _is_special(value: ast.expr, semantics: Semantics) -> bool:
    """Whether a dtype holds no floats, or a device no memory."""
    name = semantics.name(value)
    if semantics.literal(value) == "meta" or semantics.is_call_to(value, "torch.device"):
        return True
    return bool(re.search(r"torch\.(?:u?int|bool|long|short|q)|float8", name))


def _are_sizes(call: ast.Call, semantics: Semantics) -> bool:
    """Whether the arguments of ``torch.Tensor(...)`` are sizes, not data."""
    if call.keywords or not call.args or any(isinstance(item, ast.Starred) for item in call.args):
        return False
    if len(call.args) > 1:
        return True
    kind = semantics.kind(call.args[0])
    return kind is not None and kind.proven and kind.what is What.NUMBER


def may_be_filled(name: str, made: ast.Call, view: ClassView) -> bool:
    """Whether anything in the file may give ``self.<name>`` its first values, after ``made`` made it."""
    semantics, module = view.semantics, view.semantics.module
    if semantics.has_unknown_base(view.node) or module.is_base(view.name) or semantics.local_bases(view.node):
        return True
    others = [write.statement for write in view.writes(name) if not contains(write.statement, made)]
    if not all(are_exclusive(statement_of(made), other) for other in others) or may_be_remade(view.node):
        return True
    unrun = uncalled_reset(view)
    if (
        any(module.definitions(base) for base in _LOADED_BASES)
        or module.calls_of("load_state_dict")
        or _fills(name, semantics, unrun)
    ):
        return True
    return any(_may_fill(method, name, made, view) for method in view.methods if method is not unrun)


def uncalled_reset(view: ClassView) -> FunctionNode | None:
    """``reset_parameters`` of a class, where nothing in the file calls it."""
    method = view.method("reset_parameters")
    return method if method is not None and not view.semantics.module.reads_attribute("reset_parameters") else None


def _fills(name: str, semantics: Semantics, unrun: FunctionNode | None) -> bool:
    """Whether the file fills an attribute of this name of anything, or tensors without a name of their own: parameters
    in a loop, arguments of a function; ``unrun`` is a method that is not called."""
    for method in _FILLING:
        for call in semantics.module.calls_of(method):
            if unrun is not None and enclosing_function(call) is unrun:
                continue
            names = semantics.names(call.func)
            target = call.args[0] if names and call.args else getattr(call.func, "value", None)
            while isinstance(target, ast.Subscript) or (isinstance(target, ast.Attribute) and target.attr == "data"):
                target = target.value
            if isinstance(target, ast.Attribute) and (target.attr != name or _is_of_layer(target, semantics)):
                continue
            if isinstance(target, ast.Name | ast.Attribute | ast.Call):
                return True
    return False


def _is_of_layer(target: ast.Attribute, semantics: Semantics) -> bool:
    """Whether an attribute is one of a layer of torch: ``self.fc.weight`` is no ``self.weight``."""
    if semantics.class_of_self(target.value) is not None:
        return False
    kind = semantics.kind(target.value)
    return kind is not None and kind.is_module and kind.class_node is None and kind.origin.startswith("torch.nn.")


def _may_fill(method: FunctionNode, name: str, made: ast.Call, view: ClassView) -> bool:
    for call in nodes_within(method, ast.Call):
        assert isinstance(call, ast.Call)
        called = last_name(call.func)
        if called in _REACHING:
            return True
        own = isinstance(call.func, ast.Attribute) and view.semantics.class_of_self(call.func.value) is not None
        if own and called.startswith("reset") and view.semantics.find_method(view.node, called) is None:
            return True
    running = bool(_RUNNING.search(method.name))
    for node in nodes_within(method, ast.Attribute):
        assert isinstance(node, ast.Attribute)
        if node.attr in ("_parameters", "__dict__"):
            return True
        read = node.attr == name and isinstance(node.ctx, ast.Load) and not contains(made, node)
        if read and (not running or _is_changed(node)) and not _is_of_layer(node, view.semantics) and not _asks(node):
            return True
    return False


def _asks(use: ast.Attribute) -> bool:
    """Whether a use only asks what a tensor is like: ``self.weight.shape``, ``torch.empty_like(self.weight)``."""
    holder = parent_of(use)
    if isinstance(holder, ast.Call) and use in holder.args:
        return last_name(holder.func).endswith("_like")
    return isinstance(holder, ast.Attribute) and holder.attr in _ASKING


def _is_changed(use: ast.Attribute) -> bool:
    """Whether a use in ``forward`` writes into the tensor: by a method, an index, or a function that says so."""
    child: ast.AST = use
    holder = parent_of(use)
    while isinstance(holder, ast.Attribute | ast.Subscript) and child is holder.value:
        if isinstance(holder.ctx, ast.Store | ast.Del):
            return True
        if isinstance(holder, ast.Attribute) and holder.attr.endswith("_"):
            return True
        child, holder = holder, parent_of(holder)
    if isinstance(holder, ast.Call) and child in holder.args:
        return bool(_INITIALISING.search(ast.unparse(holder.func).rpartition(".")[2]))
    return isinstance(holder, ast.AugAssign)
