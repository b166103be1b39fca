"""Finding out what a value is: from its construction, annotation, definitions, and from how it is used."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from torchlint import torch_api
from torchlint.semantics.kinds import Grade, Kind, What, merged
from torchlint.semantics.literals import literal_of
from torchlint.semantics.module import enclosing_class
from torchlint.semantics.scopes import Binding, Definition, FunctionNode
from torchlint.syntax import parent_of
from torchlint.torch_api.known import is_dtype

if TYPE_CHECKING:
    from torchlint.semantics.semantics import Semantics

_DEEPEST = 12
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
#: Attributes of a tensor that are tensors, and those that are something else.
_TENSOR_ATTRIBUTES = frozenset(["T", "H", "mT", "mH", "data", "grad", "real", "imag"])
_OTHER_ATTRIBUTES = {"device": What.DEVICE, "dtype": What.DTYPE, "ndim": What.NUMBER, "shape": What.TUPLE}
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
_MODULE_ITERATORS = frozenset(["modules", "named_modules", "children", "named_children"])
#: Methods that only one sort of value has, as likely evidence for a value that nothing else tells about.
_USED_AS: tuple[tuple[What, frozenset[str]], ...] = (
    (What.OPTIMIZER, frozenset({"zero_grad", "step"})),
    (What.MODULE, frozenset({"parameters"})),
    (What.MODULE, frozenset({"eval", "train"})),
    (What.MODULE, frozenset({"named_parameters"})),
    (What.TENSOR, frozenset({"backward"})),
    (What.SCALER, frozenset({"unscale_"})),
)
_ANNOTATIONS = {
    "torch.Tensor": What.TENSOR,
    "torch.FloatTensor": What.TENSOR,
    "torch.LongTensor": What.TENSOR,
    "torch.nn.Parameter": What.PARAMETER,
    "torch.optim.Optimizer": What.OPTIMIZER,
    "torch.device": What.DEVICE,
    "torch.dtype": What.DTYPE,
    "torch.utils.data.DataLoader": What.LOADER,
    "torch.nn.Module": What.MODULE,
    "numpy.ndarray": What.ARRAY,
}
_BUILTIN_ANNOTATIONS = {
    "int": What.NUMBER,
    "float": What.NUMBER,
    "bool": What.NUMBER,
    "str": What.TEXT,
    "list": What.LIST,
    "dict": What.MAPPING,
    "tuple": What.TUPLE,
}


class KindInference:
    """Answers ``kind`` for one version of a file."""

    def __init__(self, semantics: Semantics) -> None:
        self._semantics = semantics
        self._depth = 0

    def kind(self, expression: ast.expr | None) -> Kind | None:
        """What an expression is, or None where there is no evidence or the evidence disagrees."""
        if expression is None or self._depth > _DEEPEST:
            return None
        self._depth += 1
        try:
            memo = self._semantics.module.memo
            return memo.cached(("kind", expression), lambda: self._kind(expression), None)
        finally:
            self._depth -= 1

    def _kind(self, expression: ast.expr) -> Kind | None:
        match expression:
            case ast.Name():
                return self._of_name(expression)
            case ast.Attribute():
                return self._of_attribute(expression)
            case ast.Call():
                return self._of_call(expression)
            case ast.Constant(value=value):
                return self._of_constant(value)
            case ast.BinOp(left=left, right=right):
                return self._of_operation(left, right)
            case ast.UnaryOp(operand=operand):
                kind = self.kind(operand)
                return kind if kind is not None and kind.what in (What.TENSOR, What.NUMBER) else None
            case ast.Compare(left=left, comparators=[right]):
                kind = self._of_operation(left, right)
                return kind if kind is not None and kind.what is What.TENSOR else None
            case ast.Subscript(value=value):
                return self._of_subscript(self.kind(value), expression)
            case ast.IfExp(body=body, orelse=orelse):
                return merged((self.kind(body), self.kind(orelse)))
            case ast.NamedExpr(value=value) | ast.Await(value=value):
                return self.kind(value)
            case ast.JoinedStr():
                return Kind(What.TEXT, _PROVEN, "a text")
            case ast.Tuple():
                return Kind(What.TUPLE, _PROVEN, "a tuple", node=expression)
            case ast.List() | ast.ListComp():
                return Kind(What.LIST, _PROVEN, "a list", node=expression)
            case ast.Dict() | ast.DictComp():
                return Kind(What.MAPPING, _PROVEN, "a dict", node=expression)
            case ast.GeneratorExp(generators=[ast.comprehension(iter=source)]):
                inner = self.kind(source)
                if inner is not None and inner.what is What.PARAMETERS:
                    return Kind(What.PARAMETERS, inner.grade, "a generator over parameters", node=expression)
                return None
            case _:
                return None

    # -- names and attributes ---------------------------------------------------------------------------------------

    def _of_name(self, name: ast.Name) -> Kind | None:
        definitions = self._semantics.definitions(name)
        if not definitions:
            return None
        kinds: list[Kind | None] = []
        for definition in definitions:
            if definition.kind is Binding.AUGMENTED and len(definitions) > 1:
                continue  # `x += y` leaves a tensor a tensor; the other definitions tell what x is
            if definition.kind is Binding.PARAMETER:
                kinds.append(self._of_parameter(definition, name))
            else:
                kinds.append(self.of_definition(definition))
        return merged(kinds)

    def of_definition(self, definition: Definition) -> Kind | None:
        """What a name is by one of its definitions (a parameter: by its annotation)."""
        match definition.kind:
            case Binding.ASSIGNMENT | Binding.AUGMENTED:
                if definition.path:
                    return self._of_element(definition.value, definition.path)
                if isinstance(definition.node, ast.AnnAssign):
                    annotated = self._of_annotation(definition.node.annotation)
                    return annotated or self.kind(definition.value)
                return self.kind(definition.value)
            case Binding.LOOP | Binding.COMPREHENSION:
                return self._of_iteration(definition.value, definition.path)
            case Binding.WITH if not definition.path:
                return None
            case Binding.PARAMETER:
                return self._of_parameter(definition, None)
            case Binding.ANNOTATION if isinstance(definition.node, ast.AnnAssign):
                return self._of_annotation(definition.node.annotation)
            case _:
                return None

    def _of_parameter(self, definition: Definition, use: ast.Name | None) -> Kind | None:
        argument = definition.node
        assert isinstance(argument, ast.arg)
        annotated = self._of_annotation(argument.annotation)
        if annotated is not None or argument.annotation is not None:
            return annotated
        function = enclosing_function_of_parameter(argument)
        if function is None or use is None:
            return None
        if self._is_forward_input(function, argument):
            return Kind(What.TENSOR, _LIKELY, "an input of forward")
        return self._by_calls(argument, function) or self._by_use(definition.name, function)

    def _by_calls(self, argument: ast.arg, function: FunctionNode) -> Kind | None:
        """Likely evidence from what the calls of a function in this file give for a parameter, if they agree."""
        semantics = self._semantics

        def compute() -> Kind | None:
            values = semantics.given_for(argument, function)
            kind = merged(self.kind(value) for value in values) if values else None
            return kind.likely() if kind is not None and kind.what is not What.NONE else None

        return semantics.module.memo.get(("given kind", argument), compute, None)

    def _is_forward_input(self, function: FunctionNode, argument: ast.arg) -> bool:
        if function.name != "forward":
            return False
        holder = enclosing_class(function)
        if holder is None or not self._semantics.is_module_class(holder):
            return False
        positional = [*function.args.posonlyargs, *function.args.args]
        return argument in positional[1:2] and not function.args.defaults[len(positional) - 1 :]

    def _by_use(self, name: str, function: FunctionNode) -> Kind | None:
        """Likely evidence from the methods that a function calls on one of its parameters."""
        called = self._semantics.methods_called_on(name, function)
        for what, methods in _USED_AS:
            if methods <= called:
                return Kind(what, _LIKELY, f"`{name}.{min(methods)}()` is called on it")
        return None

    def _of_annotation(self, annotation: ast.expr | None) -> Kind | None:
        if annotation is None:
            return None
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            return None
        if isinstance(annotation, ast.Subscript):
            base = self._semantics.names(annotation.value)
            if "typing.Optional" in base:
                return self._of_annotation(annotation.slice)
            if isinstance(annotation.value, ast.Name):
                what = _BUILTIN_ANNOTATIONS.get(annotation.value.id.lower())
                return Kind(what, _PROVEN, "annotated") if what is not None else None
            return None
        if isinstance(annotation, ast.BinOp):
            sides = [side for side in (annotation.left, annotation.right) if literal_of(side) is not None]
            return self._of_annotation(sides[0]) if len(sides) == 1 else None
        names = self._semantics.names(annotation)
        if len(names) == 1:
            (name,) = names
            what = _ANNOTATIONS.get(name)
            if what is not None:
                return Kind(what, _PROVEN, "annotated", name)
            instance = self._instance_of(name, annotation, None)
            if instance is not None:
                return Kind(instance.what, _PROVEN, "annotated", name, None, instance.class_node)
        elif isinstance(annotation, ast.Name) and annotation.id in _BUILTIN_ANNOTATIONS:
            return Kind(_BUILTIN_ANNOTATIONS[annotation.id], _PROVEN, "annotated")
        return None

    def _of_attribute(self, expression: ast.Attribute) -> Kind | None:
        names = self._semantics.names(expression)
        if len(names) == 1:
            (name,) = names
            if name.startswith("torch.") and is_dtype(name):
                return Kind(What.DTYPE, _PROVEN, "a dtype of torch", name)
            if name in ("torch.pi", "torch.inf", "torch.nan", "torch.e", "math.pi"):
                return Kind(What.NUMBER, _PROVEN, "a constant", name)
        owner = self._semantics.class_of_self(expression.value)
        if owner is not None:
            return self.of_class_attribute(owner, expression.attr)
        base = self.kind(expression.value)
        if base is None:
            return None
        if base.is_tensor:
            if expression.attr in _TENSOR_ATTRIBUTES:
                return Kind(What.TENSOR, base.grade, f"`.{expression.attr}` of a tensor")
            what = _OTHER_ATTRIBUTES.get(expression.attr)
            return Kind(what, base.grade, f"`.{expression.attr}` of a tensor") if what is not None else None
        if base.class_node is not None:
            found = self.of_class_attribute(base.class_node, expression.attr)
            if found is not None:
                return found
        if base.is_module:
            if expression.attr in ("weight", "bias") and base.origin.startswith("torch.nn."):
                return Kind(What.PARAMETER, base.grade, f"`.{expression.attr}` of a layer")
            if expression.attr == "module" and base.origin in WRAPPERS:
                return self._wrapped(base)
        return None

    def of_class_attribute(self, owner: ast.ClassDef, name: str, depth: int = 0) -> Kind | None:
        """What ``self.<name>`` is, by all that the class and its bases in this file write to it."""
        semantics = self._semantics

        def compute() -> Kind | None:
            writes = semantics.module.attribute_writes(owner, name)
            kinds = [self._of_element(write.value, write.path) for write in writes if not write.augmented]
            if not kinds:
                kinds = [self.of_definition(item) for item in semantics.module.body_definitions(owner, name)]
            if not kinds and depth < 4:
                for base in semantics.local_bases(owner):
                    found = self.of_class_attribute(base, name, depth + 1)
                    if found is not None:
                        return found
            return merged(kinds)

        return semantics.module.memo.get(("attribute kind", owner, name), compute, None)

    # -- elements and iteration -------------------------------------------------------------------------------------

    def _of_element(self, value: ast.expr | None, path: tuple[int | None, ...]) -> Kind | None:
        expression = value
        for position, index in enumerate(path):
            if isinstance(expression, ast.Tuple | ast.List) and index is not None and _has(expression.elts, index):
                expression = expression.elts[index]
                continue
            return self._of_unpacked(self.kind(expression), expression, path[position:])
        return self.kind(expression)

    def _of_unpacked(self, kind: Kind | None, value: ast.expr | None, path: tuple[int | None, ...]) -> Kind | None:
        if kind is None:
            return None
        if kind.is_tensor:
            return Kind(What.TENSOR, kind.grade, "a slice of a tensor") if path[0] is not None else None
        if kind.what is What.TUPLE and isinstance(kind.node, ast.Tuple) and path[0] is not None:
            return self._of_element(kind.node, path) if kind.node is not value else None
        if kind.what is What.TUPLE and kind.origin and len(path) == 1:
            return Kind(What.TENSOR, _LIKELY, f"an element of what {kind.origin} returns")
        return None

    def _of_iteration(self, source: ast.expr | None, path: tuple[int | None, ...]) -> Kind | None:
        """What an element of an iterable is (``path`` leads into the element)."""
        if isinstance(source, ast.Call):
            name = self._builtin_called(source)
            if name == "enumerate" and source.args:
                if path[:1] == (1,):
                    return self._of_iteration(source.args[0], path[1:])
                return Kind(What.NUMBER, _PROVEN, "a count") if path == (0,) else None
            if name == "range":
                return Kind(What.NUMBER, _PROVEN, "a count")
            if name == "zip" and path and path[0] is not None and _has(source.args, path[0]):
                return self._of_iteration(source.args[path[0]], path[1:])
            called = self._semantics.names(source.func)
            if (
                called
                and all(item.rpartition(".")[2] in ("tqdm", "track", "trange") for item in called)
                and source.args
            ):
                return self._of_iteration(source.args[0], path)
        kind = self.kind(source)
        if kind is None:
            return self._of_elements_of(source, path)
        if kind.what is What.LOADER:
            return Kind(What.TENSOR, _LIKELY, "part of a batch of a DataLoader") if path else None
        if kind.is_tensor and not path:
            return Kind(What.TENSOR, kind.grade, "a row of a tensor")
        if kind.what is What.PARAMETERS:
            if kind.origin.startswith("named_"):
                if path == (1,):
                    return Kind(What.PARAMETER, kind.grade, "a parameter of a module")
                return Kind(What.TEXT, kind.grade, "a name") if path == (0,) else None
            return Kind(What.PARAMETER, kind.grade, "a parameter of a module") if not path else None
        return self._of_elements_of(kind.node if isinstance(kind.node, ast.expr) else source, path)

    def _of_elements_of(self, source: ast.expr | None, path: tuple[int | None, ...]) -> Kind | None:
        if isinstance(source, ast.List | ast.Tuple) and source.elts:
            return merged(self._of_element(element, path) for element in source.elts)
        if isinstance(source, ast.ListComp) and not path:
            return self.kind(source.elt)
        return None

    def _of_subscript(self, kind: Kind | None, expression: ast.Subscript) -> Kind | None:
        if kind is None:
            return None
        if kind.is_tensor:
            return Kind(What.TENSOR, kind.grade, "an index into a tensor")
        index = literal_of(expression.slice)
        if kind.what in (What.TUPLE, What.LIST) and isinstance(index, int):
            if isinstance(kind.node, ast.Tuple | ast.List) and _has(kind.node.elts, index):
                return self.kind(kind.node.elts[index])
            return self._of_unpacked(kind, expression.value, (index,))
        if kind.what is What.LIST and isinstance(kind.node, ast.ListComp):
            return self.kind(kind.node.elt)
        if kind.is_module and kind.origin in ("torch.nn.Sequential", "torch.nn.ModuleList", "torch.nn.ModuleDict"):
            return self._member(kind, index)
        if kind.what is What.ARRAY:
            return kind
        return None

    def _member(self, container: Kind, index: object) -> Kind | None:
        call = container.node
        if not isinstance(call, ast.Call):
            return None
        elements: list[ast.expr] = list(call.args)
        if container.origin != "torch.nn.Sequential" and len(elements) == 1 and isinstance(elements[0], ast.List):
            elements = elements[0].elts
        if isinstance(index, int) and _has(elements, index) and not any(isinstance(e, ast.Starred) for e in elements):
            return self.kind(elements[index])
        return Kind(What.MODULE, container.grade, "a member of a module container")

    # -- operations and calls ---------------------------------------------------------------------------------------

    def _of_constant(self, value: object) -> Kind | None:
        if value is None:
            return Kind(What.NONE, _PROVEN, "None")
        if isinstance(value, str):
            return Kind(What.TEXT, _PROVEN, "a text")
        if isinstance(value, int | float | complex):
            return Kind(What.NUMBER, _PROVEN, "a number")
        return None

    def _of_operation(self, left: ast.expr, right: ast.expr) -> Kind | None:
        sides = (self.kind(left), self.kind(right))
        tensors = [side for side in sides if side is not None and side.is_tensor]
        if tensors:
            best = max(side.grade for side in tensors)
            return Kind(What.TENSOR, best, "arithmetic with a tensor")
        known = [side for side in sides if side is not None]
        if len(known) == 2 and known[0].what is known[1].what and known[0].what in (What.NUMBER, What.TEXT):
            return Kind(known[0].what, min(known[0].grade, known[1].grade), known[0].evidence)
        if any(side.what is What.ARRAY for side in known):
            return next(side for side in known if side.what is What.ARRAY)
        return None

    def _builtin_called(self, call: ast.Call) -> str | None:
        """The name of a builtin that is called and that nothing in the file rebinds."""
        if isinstance(call.func, ast.Name) and not self._semantics.definitions(call.func):
            return call.func.id
        return None

    def _of_call(self, call: ast.Call) -> Kind | None:
        builtin = self._builtin_called(call)
        if builtin is not None:
            return self._of_builtin(builtin, call)
        names = self._semantics.names(call.func)
        if names:
            return merged(self._of_call_to(name, call) for name in names)
        if isinstance(call.func, ast.Attribute):
            return self._of_method_call(call, call.func)
        return self._of_object_call(self.kind(call.func), call)

    def _of_builtin(self, name: str, call: ast.Call) -> Kind | None:
        if name in ("float", "int", "len", "round", "bool"):
            return Kind(What.NUMBER, _PROVEN, f"{name}()")
        if name in ("str", "repr", "format"):
            return Kind(What.TEXT, _PROVEN, f"{name}()")
        if name in ("filter", "map") and len(call.args) == 2:
            inner = self.kind(call.args[1])
            if inner is not None and inner.what is What.PARAMETERS:
                return Kind(What.PARAMETERS, inner.grade, f"{name}() over parameters", inner.origin, call)
        if name == "iter" and call.args:
            return self.kind(call.args[0])
        if name == "super":
            return None
        if name in ("list", "tuple", "dict", "set", "sorted"):
            what = {"tuple": What.TUPLE, "dict": What.MAPPING}.get(name, What.LIST)
            return Kind(what, _PROVEN, f"{name}()", node=call)
        return None

    def _of_call_to(self, name: str, call: ast.Call) -> Kind | None:
        if name in _SAME_KIND_CALLS and call.args:
            return self.kind(call.args[0])
        if name in WRAPPERS and call.args:
            inner = self.kind(call.args[0])
            if inner is not None and inner.class_node is not None and name != "torch.compile":
                return Kind(What.MODULE, inner.grade, f"wrapped by {name}", name, call, None)
            return inner or Kind(What.MODULE, _LIKELY, f"wrapped by {name}", name, call)
        if name in ("itertools.chain", "itertools.chain.from_iterable"):
            given = [self.kind(argument) for argument in call.args]
            if given and all(item is not None and item.what is What.PARAMETERS for item in given):
                return Kind(What.PARAMETERS, _PROVEN, "a chain of parameters", "", call)
            return None
        instance = self._instance_of(name, call.func, call)
        if instance is not None:
            return instance
        if torch_api.returns_tensor(name):
            return Kind(What.TENSOR, _PROVEN, f"returned by {name}", name, call)
        if is_torchvision_model(name):
            return Kind(What.MODULE, _PROVEN, f"built by {name}", name, call)
        if name in ("timm.create_model", "torch.hub.load"):
            return Kind(What.MODULE, _LIKELY, f"built by {name}", name, call)
        if name.startswith("numpy."):
            return Kind(What.ARRAY, _LIKELY, "made by NumPy", name, call)
        if name.startswith("."):
            return self._of_local_call(name, call)
        head, _, method = name.rpartition(".")
        if method == "from_pretrained" and head.startswith("transformers."):
            return Kind(What.MODULE, _LIKELY, "loaded by transformers", name, call) if "Model" in head else None
        return None

    def _of_local_call(self, name: str, call: ast.Call) -> Kind | None:
        function = self._semantics.local_function(call.func)
        if function is None:
            return None
        return self.of_returned(function)

    def of_returned(self, function: FunctionNode) -> Kind | None:
        """What a function of this file returns."""
        if function.returns is not None:
            annotated = self._of_annotation(function.returns)
            if annotated is not None and annotated.what is not What.MODULE:
                return annotated
        semantics = self._semantics

        def compute() -> Kind | None:
            values = semantics.returned_values(function)
            return merged(self.kind(value) for value in values) if values else None

        return semantics.module.memo.get(("returned kind", function), compute, None)

    def _instance_of(self, name: str, expression: ast.expr, call: ast.Call | None) -> Kind | None:
        """The kind of an instance of the class ``name``."""
        if name.startswith("."):
            node = self._semantics.local_class(expression)
            if node is None:
                return None
            return self._instance_of_local(name, node, call)
        for what, test in _CLASSES:
            if test(name):
                return Kind(what, _PROVEN, f"built by {name}", name, call)
        return None

    def _instance_of_local(self, name: str, node: ast.ClassDef, call: ast.Call | None) -> Kind | None:
        ancestors = self._semantics.ancestors(node)
        for what, test in _CLASSES:
            if any(test(ancestor) for ancestor in ancestors):
                return Kind(what, _PROVEN, f"an instance of {name[1:]}", name, call, node)
        for ancestor, what in _BASES.items():
            if ancestor in ancestors:
                return Kind(what, _PROVEN, f"an instance of {name[1:]}", name, call, node)
        return Kind(What.OTHER, _PROVEN, f"an instance of {name[1:]}", name, call, node)

    def _of_method_call(self, call: ast.Call, function: ast.Attribute) -> Kind | None:
        method = function.attr
        owner = self._semantics.class_of_self(function.value)
        if owner is not None:
            return self._of_own_method(owner, method, call)
        base = self.kind(function.value)
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
                    return self.of_returned(node)
            return self.kind_of_member_call(base, call)
        if base.what is What.SCALER and method == "scale":
            return Kind(What.TENSOR, base.grade, "a scaled loss", "scale", call)
        if base.what is What.ARRAY:
            return Kind(What.ARRAY, base.grade, base.evidence)
        if base.class_node is not None:
            node = self._semantics.find_method(base.class_node, method)
            return self.of_returned(node) if node is not None else None
        return None

    def _of_own_method(self, owner: ast.ClassDef, method: str, call: ast.Call) -> Kind | None:
        node = self._semantics.find_method(owner, method)
        if node is not None:
            return self.of_returned(node)
        member = self.of_class_attribute(owner, method)
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
        return self._of_object_call(self.kind(call.func), call)

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
            returned = self.of_returned(forward) if forward is not None else None
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

    def _wrapped(self, wrapper: Kind) -> Kind | None:
        call = wrapper.node
        return self.kind(call.args[0]) if isinstance(call, ast.Call) and call.args else None


def enclosing_function_of_parameter(argument: ast.arg) -> FunctionNode | None:
    """The function that has a parameter (None for a lambda's)."""
    holder = parent_of(argument)
    function = parent_of(holder) if holder is not None else None
    return function if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) else None


def is_torchvision_model(name: str) -> bool:
    """Whether calling a name builds a model of torchvision (they all hold dropout or batch normalisation)."""
    return name.startswith("torchvision.models.") and not name.rpartition(".")[2].startswith(("get_", "list_", "_"))


def _has(elements: list[ast.expr], index: int) -> bool:
    return -len(elements) <= index < len(elements)


_BASES = {"torch.nn.Module": What.MODULE, "torch.optim.Optimizer": What.OPTIMIZER}
_CLASSES: tuple[tuple[What, Callable[[str], bool]], ...] = (
    (What.LOSS, torch_api.is_loss_class),
    (What.MODULE, torch_api.is_module_class),
    (What.OPTIMIZER, torch_api.is_optimizer),
    (What.SCHEDULER, torch_api.is_scheduler),
    (What.SCALER, torch_api.is_scaler),
    (What.LOADER, torch_api.is_loader),
    (What.DATASET, torch_api.is_dataset),
    (What.SAMPLER, torch_api.is_sampler),
    (What.PARAMETER, lambda name: name in ("torch.nn.Parameter", "torch.nn.UninitializedParameter")),
    (What.TENSOR, lambda name: name == "torch.Tensor"),
    (What.DEVICE, lambda name: name == "torch.device"),
    (What.GENERATOR, lambda name: name == "torch.Generator"),
)
