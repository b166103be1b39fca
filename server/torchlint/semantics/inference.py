"""Finding out what a value is: from its construction, annotation, definitions, and from how it is used."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, cast

from torchlint.semantics.call_kinds import WRAPPERS, CallKinds
from torchlint.semantics.element_kinds import ElementKinds
from torchlint.semantics.instance_kinds import InstanceKinds
from torchlint.semantics.kinds import Grade, Kind, What, merged
from torchlint.semantics.literals import literal_of
from torchlint.semantics.narrowing import class_tested_around
from torchlint.semantics.nodes import default_of, enclosing_class
from torchlint.semantics.scopes import Binding, Definition, FunctionNode
from torchlint.syntax import parent_of
from torchlint.torch_api.known import is_dtype

if TYPE_CHECKING:
    from torchlint.semantics.semantics import Semantics

_DEEPEST = 12
_UNASKED = object()
_PROVEN, _LIKELY = Grade.PROVEN, Grade.LIKELY

#: Attributes of a tensor that are tensors, and those that are something else.
_TENSOR_ATTRIBUTES = frozenset(["T", "H", "mT", "mH", "data", "grad", "real", "imag"])
_OTHER_ATTRIBUTES = {"device": What.DEVICE, "dtype": What.DTYPE, "ndim": What.NUMBER, "shape": What.TUPLE}
#: Methods that only one sort of value has, as likely evidence for a value that nothing else tells about.
_USED_AS: tuple[tuple[What, frozenset[str]], ...] = (
    (What.OPTIMIZER, frozenset({"zero_grad", "step"})),
    (What.MODULE, frozenset({"parameters"})),
    (What.MODULE, frozenset({"eval", "train"})),
    (What.MODULE, frozenset({"named_parameters"})),
    (What.TENSOR, frozenset({"backward"})),
    (What.SCALER, frozenset({"unscale_"})),
)


class KindInference:
    """Answers ``kind`` for one version of a file."""

    def __init__(self, semantics: Semantics) -> None:
        self._semantics = semantics
        self._memo = semantics.module.memo
        self._instances = InstanceKinds(semantics)
        self._elements = ElementKinds(semantics, self.kind, self._instances.annotated)
        self._calls = CallKinds(semantics, self, self._instances)
        self._depth = 0

    def kind(self, expression: ast.expr | None) -> Kind | None:
        """What an expression is, or None where there is no evidence or the evidence disagrees."""
        if expression is None:
            return None
        table = self._memo.table("kinds")
        known = table.get(expression, _UNASKED)
        if known is not _UNASKED:
            return cast("Kind | None", known)
        if self._depth > _DEEPEST:
            return None
        table[expression] = None  # while it is being found
        self._depth += 1
        try:
            kind = table[expression] = self._kind(expression)
            return kind
        finally:
            self._depth -= 1

    def _kind(self, expression: ast.expr) -> Kind | None:
        match expression:
            case ast.Name():
                return self._of_name(expression)
            case ast.Attribute():
                return self._of_attribute(expression)
            case ast.Call():
                return self._calls.kind_of(expression)
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
                return self._elements.subscripted(self.kind(value), expression)
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
        kind = merged(kinds)
        tested = None if kind is None else class_tested_around(self._semantics, name)
        if kind is None or tested is None:
            return kind
        narrowed = self._instances.annotated(tested)
        return kind if narrowed is not None and narrowed.what is kind.what else narrowed

    def of_definition(self, definition: Definition) -> Kind | None:
        """What a name is by one of its definitions (a parameter: by its annotation)."""
        match definition.kind:
            case Binding.ASSIGNMENT | Binding.AUGMENTED:
                if definition.path:
                    return self._elements.element(definition.value, definition.path)
                if isinstance(definition.node, ast.AnnAssign):
                    annotated = self._instances.annotated(definition.node.annotation)
                    return annotated or self.kind(definition.value)
                return self.kind(definition.value)
            case Binding.LOOP | Binding.COMPREHENSION:
                return self._elements.iterated(definition.value, definition.path)
            case Binding.WITH if not definition.path:
                return None
            case Binding.PARAMETER:
                return self._of_parameter(definition, None)
            case Binding.ANNOTATION if isinstance(definition.node, ast.AnnAssign):
                return self._instances.annotated(definition.node.annotation)
            case _:
                return None

    def _of_parameter(self, definition: Definition, use: ast.Name | None) -> Kind | None:
        argument = definition.node
        assert isinstance(argument, ast.arg)
        annotated = self._instances.annotated(argument.annotation)
        if annotated is not None or argument.annotation is not None:
            return annotated
        function = enclosing_function_of_parameter(argument)
        if function is None or use is None:
            return None
        if self._is_forward_input(function, argument):
            return Kind(What.TENSOR, _LIKELY, "an input of forward")
        if self._semantics.class_of_self(use) is not None:
            return None  # an object with a method `backward` of its own is no tensor for that
        found = self._by_calls(argument, function) or self._by_use(definition.name, function)
        return found or self._by_default(argument)

    def _by_default(self, argument: ast.arg) -> Kind | None:
        """Likely evidence from a loss that a parameter has as its default: ``loss_fn=nn.CrossEntropyLoss()``."""
        default = default_of(argument)
        kind = self.kind(default) if isinstance(default, ast.Call) else None
        return kind.likely() if kind is not None and kind.what is What.LOSS else None

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
            kinds = [self._elements.element(write.value, write.path) for write in writes if not write.augmented]
            if not kinds:
                kinds = [self.of_definition(item) for item in semantics.module.body_definitions(owner, name)]
            if not kinds:
                kinds = [self.kind(call.args[1]) for call in self._registered(owner, name)]
            if not kinds and depth < 4:
                for base in semantics.local_bases(owner):
                    found = self.of_class_attribute(base, name, depth + 1)
                    if found is not None:
                        return found
            return merged(kinds)

        return semantics.module.memo.get(("attribute kind", owner, name), compute, None)

    def _registered(self, owner: ast.ClassDef, name: str) -> list[ast.Call]:
        """The calls ``self.register_buffer("<name>", ...)`` of a class."""
        if not self._semantics.module.mentions_call("register_buffer"):
            return []
        return [
            call
            for call in self._semantics.module.calls_of("register_buffer")
            if len(call.args) > 1
            and literal_of(call.args[0]) == name
            and isinstance(call.func, ast.Attribute)
            and self._semantics.class_of_self(call.func.value) is owner
        ]

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
            if None in sides:
                best = min(best, Grade.LIKELY)
            return Kind(What.TENSOR, best, "arithmetic with a tensor")
        known = [side for side in sides if side is not None]
        if len(known) == 2 and known[0].what is known[1].what and known[0].what in (What.NUMBER, What.TEXT):
            return Kind(known[0].what, min(known[0].grade, known[1].grade), known[0].evidence)
        if any(side.what is What.ARRAY for side in known):
            return next(side for side in known if side.what is What.ARRAY)
        return None

    def of_returned(self, function: FunctionNode) -> Kind | None:
        """What a function of this file returns."""
        if function.returns is not None:
            annotated = self._instances.annotated(function.returns)
            if annotated is not None and annotated.what is not What.MODULE:
                return annotated
        semantics = self._semantics

        def compute() -> Kind | None:
            values = semantics.returned_values(function)
            return merged(self.kind(value) for value in values) if values else None

        return semantics.module.memo.get(("returned kind", function), compute, None)

    def _wrapped(self, wrapper: Kind) -> Kind | None:
        call = wrapper.node
        return self.kind(call.args[0]) if isinstance(call, ast.Call) and call.args else None


def enclosing_function_of_parameter(argument: ast.arg) -> FunctionNode | None:
    """The function that has a parameter (None for a lambda's)."""
    holder = parent_of(argument)
    function = parent_of(holder) if holder is not None else None
    return function if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) else None
