"""What a call gives: of a builtin, a function of torch, a class, a method, or an object."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchlint import torch_api
from torchlint.regex import regex
from torchlint.semantics.element_kinds import builtin_called
from torchlint.semantics.instance_kinds import InstanceKinds
from torchlint.semantics.kinds import Grade, Kind, What, merged
from torchlint.syntax import parent_of

if TYPE_CHECKING:
    from torchlint.semantics.inference import KindInference
    from torchlint.semantics.semantics import Semantics

_PROVEN, _LIKELY = Grade.PROVEN, Grade.LIKELY
#: Methods of a module that give the module back.
MODULE_RETURNS_SELF = frozenset(
    [
        "to",
        "cuda",
        "cpu",
        "xpu",
        "half",
        "float",
        "double",
        "bfloat16",
        "train",
        "eval",
        "requires_grad_",
        "apply",
        "type",
        "to_empty",
        "share_memory",
    ]
)
#: Calls that give a module that runs the module they are given.
WRAPPERS = frozenset(
    [
        "torch.compile",
        "torch.nn.DataParallel",
        "torch.nn.parallel.DistributedDataParallel",
        "torch.jit.script",
        "torch.nn.SyncBatchNorm.convert_sync_batchnorm",
        "torch.nn.utils.weight_norm",
        "torch.nn.utils.spectral_norm",
        "torch.nn.utils.parametrizations.weight_norm",
        "torch.nn.utils.parametrizations.spectral_norm",
        "torch.distributed.fsdp.FullyShardedDataParallel",
    ]
)
_SAME_KIND_CALLS = frozenset(("copy.deepcopy", "copy.copy"))
_PARAMETER_ITERATORS = frozenset(["parameters", "named_parameters", "buffers", "named_buffers"])

#: Functions of transformers and diffusers that make a scheduler of torch: its ``LambdaLR`` and the like.
_SCHEDULES = regex(r"(transformers|diffusers)\.(optimization\.)?get_(\w+_)?schedule(r|_\w+)?$")


class CallKinds:
    """Answers for calls; ``infer`` infers the kind of any other expression."""

    def __init__(self, semantics: Semantics, infer: KindInference, instances: InstanceKinds) -> None:
        self._semantics = semantics
        self._infer = infer
        self._instances = instances

    def kind_of(self, call: ast.Call) -> Kind | None:
        builtin = builtin_called(self._semantics, call)
        if builtin is not None:
            return self._of_builtin(builtin, call)
        names = self._semantics.names(call.func)
        if names:
            return merged(self._of_call_to(name, call) for name in names)
        if isinstance(call.func, ast.Attribute):
            return self._of_method_call(call, call.func)
        return self._of_object_call(self._infer.kind(call.func), call)

    def _of_builtin(self, name: str, call: ast.Call) -> Kind | None:
        if name in ("float", "int", "len", "round", "bool"):
            return Kind(What.NUMBER, _PROVEN, f"{name}()")
        if name in ("str", "repr", "format"):
            return Kind(What.TEXT, _PROVEN, f"{name}()")
        if name in ("filter", "map") and len(call.args) == 2:
            inner = self._infer.kind(call.args[1])
            if inner is not None and inner.what is What.PARAMETERS:
                return Kind(What.PARAMETERS, inner.grade, f"{name}() over parameters", inner.origin, call)
        if name == "iter" and call.args:
            return self._infer.kind(call.args[0])
        if name == "super":
            return None
        if name in ("list", "tuple", "dict", "set", "sorted"):
            what = {"tuple": What.TUPLE, "dict": What.MAPPING}.get(name, What.LIST)
            return Kind(what, _PROVEN, f"{name}()", node=call)
        return None

    def _of_call_to(self, name: str, call: ast.Call) -> Kind | None:
        if name in _SAME_KIND_CALLS and call.args:
            return self._infer.kind(call.args[0])
        if name in WRAPPERS and call.args:
            inner = self._infer.kind(call.args[0])
            if inner is not None and inner.class_node is not None and name != "torch.compile":
                return Kind(What.MODULE, inner.grade, f"wrapped by {name}", name, call, None)
            return inner or Kind(What.MODULE, _LIKELY, f"wrapped by {name}", name, call)
        if name in ("itertools.chain", "itertools.chain.from_iterable"):
            given = [self._infer.kind(argument) for argument in call.args]
            if given and all(item is not None and item.what is What.PARAMETERS for item in given):
                return Kind(What.PARAMETERS, _PROVEN, "a chain of parameters", "", call)
            return None
        instance = self._instances.instance_of(name, call.func, call)
        if instance is not None:
            return instance
        if torch_api.returns_tensor(name):
            return Kind(What.TENSOR, _PROVEN, f"returned by {name}", name, call)
        if torch_api.is_torchvision_model(name):
            return Kind(What.MODULE, _PROVEN, f"built by {name}", name, call)
        if name in ("timm.create_model", "torch.hub.load"):
            return Kind(What.MODULE, _LIKELY, f"built by {name}", name, call)
        if _SCHEDULES.match(name):
            return Kind(What.SCHEDULER, _LIKELY, f"made by {name}", "torch.optim.lr_scheduler.LRScheduler", call)
        if name.startswith("numpy."):
            return Kind(What.ARRAY, _LIKELY, "made by NumPy", name, call)
        if name.startswith("."):
            return self._of_local_call(name, call)
        head, _, method = name.rpartition(".")
        if method == "from_pretrained" and head.startswith("transformers."):
            is_model = "Model" in head or "For" in head  # `BertForMaskedLM`; no tokenizer or configuration is so called
            return Kind(What.MODULE, _LIKELY, "loaded by transformers", name, call) if is_model else None
        return None

    def _of_local_call(self, name: str, call: ast.Call) -> Kind | None:
        function = self._semantics.local_function(call.func)
        if function is None:
            return None
        return self._infer.of_returned(function)

    def _of_method_call(self, call: ast.Call, function: ast.Attribute) -> Kind | None:
        method = function.attr
        owner = self._semantics.class_of_self(function.value)
        if owner is not None:
            return self._of_own_method(owner, method, call)
        base = self._infer.kind(function.value)
        if base is None:
            return self._of_telling_method(method, function)
        if base.is_tensor:
            return self._of_tensor_method(method, base)
        if base.is_module:
            if method in MODULE_RETURNS_SELF:
                return base
            if method in _PARAMETER_ITERATORS:
                return Kind(What.PARAMETERS, base.grade, f"`.{method}()` of a module", method, call)
            if method == "state_dict":
                return Kind(What.MAPPING, base.grade, "a state dict", "state_dict", call)
            if method == "forward":
                return self._of_object_call(base, call)
            if base.class_node is not None:
                node = self._semantics.find_method(base.class_node, method)
                if node is not None:
                    return self._infer.of_returned(node)
            return self.kind_of_member_call(base, call)
        if base.what is What.SCALER and method == "scale":
            return Kind(What.TENSOR, base.grade, "a scaled loss", "scale", call)
        if base.what is What.ARRAY:
            return Kind(What.ARRAY, base.grade, base.evidence)
        if base.class_node is not None:
            node = self._semantics.find_method(base.class_node, method)
            return self._infer.of_returned(node) if node is not None else None
        return None

    def _of_own_method(self, owner: ast.ClassDef, method: str, call: ast.Call) -> Kind | None:
        node = self._semantics.find_method(owner, method)
        if node is not None:
            return self._infer.of_returned(node)
        member = self._infer.of_class_attribute(owner, method)
        if member is not None:
            return self._of_object_call(member, call)
        if self._semantics.is_module_class(owner):
            if method in _PARAMETER_ITERATORS:
                return Kind(What.PARAMETERS, _PROVEN, f"`.{method}()` of a module", method, call)
            if method in MODULE_RETURNS_SELF:
                return Kind(What.MODULE, _PROVEN, "this module", f".{owner.name}", None, owner)
            if method == "state_dict":
                return Kind(What.MAPPING, _PROVEN, "a state dict", "state_dict", call)
        return None

    def kind_of_member_call(self, base: Kind, call: ast.Call) -> Kind | None:
        """``model.layer(x)``: what calling a member of a module gives."""
        return self._of_object_call(self._infer.kind(call.func), call)

    def _of_tensor_method(self, method: str, base: Kind) -> Kind | None:
        facts = torch_api.tensor_method(method)
        if facts is None:
            return None
        if facts.returns in ("tensor", "self"):
            return Kind(What.TENSOR, base.grade, f"`.{method}()` of a tensor", method)
        if facts.returns == "number":
            return Kind(What.NUMBER, base.grade, f"`.{method}()` of a tensor", method)
        if facts.returns == "tensors":
            return Kind(What.TUPLE, base.grade, f"`.{method}()` of a tensor", method)
        if method == "numpy":
            return Kind(What.ARRAY, base.grade, "`.numpy()` of a tensor", method)
        return None

    def _of_telling_method(self, method: str, function: ast.Attribute) -> Kind | None:
        """What only one sort of object gives (``x.parameters()``), where ``x`` itself is unknown."""
        if method in ("parameters", "named_parameters"):
            return Kind(What.PARAMETERS, _LIKELY, f"`.{method}()`", method, parent_of(function))
        if method == "item":
            return Kind(What.NUMBER, _LIKELY, "`.item()`", method)
        if method == "state_dict":
            return Kind(What.MAPPING, _LIKELY, "a state dict", "state_dict", parent_of(function))
        return None

    def _of_object_call(self, kind: Kind | None, call: ast.Call) -> Kind | None:
        """What calling an object gives: layers and losses of torch give tensors."""
        if kind is None or not kind.is_module:
            return None
        if kind.class_node is not None:
            forward = self._semantics.find_method(kind.class_node, "forward")
            returned = self._infer.of_returned(forward) if forward is not None else None
            if returned is not None:
                return returned
            return Kind(What.TENSOR, _LIKELY, f"the output of {kind.origin[1:]}") if forward is None else None
        if kind.what is What.LOSS:
            return Kind(What.TENSOR, kind.grade, f"the loss of {kind.origin}", kind.origin, call)
        facts = torch_api.module_facts(kind.origin)
        if facts is not None:
            if facts.kind == "recurrent" or kind.origin == "torch.nn.MultiheadAttention":
                return Kind(What.TUPLE, kind.grade, f"the output of {kind.origin}", kind.origin, call)
            if facts.kind != "container" or kind.origin == "torch.nn.Sequential":
                return Kind(What.TENSOR, kind.grade, f"the output of {kind.origin}", kind.origin, call)
            return None
        return Kind(What.TENSOR, _LIKELY, "the output of a module", kind.origin, call)
