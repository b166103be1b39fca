"""The questions that rules ask, in plain words, about one version of a file."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Sequence

from torchlint import torch_api
from torchlint.semantics.class_facts import first_parameter
from torchlint.semantics.index import index_of
from torchlint.semantics.inference import KindInference
from torchlint.semantics.kinds import Kind
from torchlint.semantics.literals import UNKNOWN, literal_of
from torchlint.semantics.memo import Memo
from torchlint.semantics.module import ModuleFacts
from torchlint.semantics.names import NameResolver
from torchlint.semantics.nodes import (
    argument,
    element_of,
    enclosing_function,
    has_unknown_arguments,
    is_static,
    nodes_within,
    position_of,
    scope_at,
)
from torchlint.semantics.reaching import reaching_definitions
from torchlint.semantics.scopes import Binding, Definition, FunctionNode
from torchlint.syntax import parent_of, part_of

_MODULE_BASES = frozenset(
    (
        "torch.nn.Module",
        "pytorch_lightning.LightningModule",
        "lightning.LightningModule",
        "lightning.pytorch.LightningModule",
        "transformers.PreTrainedModel",
        "torchvision.models.ResNet",
    )
)
_NO_NAMES: frozenset[str] = frozenset()
_BUILTINS = frozenset(dir(builtins))


class Semantics:
    """What the code of one version of a file means, as far as it can be told from the file."""

    def __init__(self, module: ModuleFacts) -> None:
        self.module = module
        module.memo.asked = self
        self._resolver = NameResolver(module)
        self._inference = KindInference(self)

    def take_apart(self) -> None:
        """Let go of everything, for who is done with the version: its parts hold each other, and would wait for the
        cyclic collector."""
        for held in (self.module.memo, self.module, self._inference, self):
            held.__dict__.clear()

    # -- names and definitions --------------------------------------------------------------------------------------

    def names(self, expression: ast.expr | None) -> frozenset[str]:
        """All canonical dotted names an expression can have (``.Net`` for names of this file); empty if unknown."""
        return self._resolver.names(expression)

    def name(self, expression: ast.expr | None) -> str:
        """The canonical name of an expression if there is exactly one, else an empty text."""
        names = self.names(expression)
        return next(iter(names)) if len(names) == 1 else ""

    def written_name(self, expression: ast.expr | None) -> str:
        """The dotted name of an expression as the file's imports write it (``torch.nn.modules.loss.MSELoss``), where an
        alias has a meaning of its own; an empty text unless it is made of an import and attributes."""
        return self._resolver.written(expression)

    def is_named(self, expression: ast.expr | None, *names: str) -> bool:
        """Whether an expression can only be one of ``names``."""
        found = self.names(expression)
        return bool(found) and found <= set(names)

    def is_call_to(self, expression: ast.AST | None, *names: str) -> bool:
        """Whether an expression is a call of one of these functions or classes."""
        return isinstance(expression, ast.Call) and self.is_named(expression.func, *names)

    def definitions(self, name: ast.Name) -> tuple[Definition, ...]:
        """The bindings that can reach this use of a name; where paths are not known (a use in a nested function, a
        name of the module used in a function) all bindings of the name. Empty: a builtin or an unbound name."""
        table = self.module.memo.table("definitions")
        known: tuple[Definition, ...] | None = table.get(name)
        if known is None:
            table[name] = ()  # while they are being found
            known = table[name] = self._definitions(name)
        return known

    def _definitions(self, name: ast.Name) -> tuple[Definition, ...]:
        scope = scope_at(name)
        holder = scope
        while holder.parent is not None and not isinstance(holder.node, ast.FunctionDef | ast.AsyncFunctionDef):
            if name.id in holder.definitions:
                return self._resolver.bindings(name)
            holder = holder.parent
        if isinstance(holder.node, ast.FunctionDef | ast.AsyncFunctionDef):
            if name.id in holder.definitions and name.id not in holder.outer_names:
                found = holder.definitions[name.id]
                if len(found) == 1 and _reaches_all_after(found[0], holder.node, name):
                    return (found[0],)
                reaching = self._reaching_in(holder.node).get(name)
                if reaching is not None:
                    return tuple(sorted(reaching, key=_position))
        elif not holder.of_member:
            reaching = self._reaching_in_module().get(name)
            if reaching and not self._is_defined_at_top(name.id):  # the paths do not lead through definitions
                return tuple(reaching)
        return self._resolver.bindings(name)

    def _is_defined_at_top(self, name: str) -> bool:
        """Whether a function or class of the module's top level has a name."""
        defined = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        found = self.module.definitions(name)
        return any(isinstance(item.node, defined) and parent_of(item.node) is None for item in found)

    def bindings(self, name: ast.Name) -> tuple[Definition, ...]:
        """All bindings of a name in the scope that it belongs to, whether or not they can reach this use."""
        return self._resolver.bindings(name)

    def _reaching_in(self, function: FunctionNode) -> dict[ast.Name, frozenset[Definition]]:
        known: dict[ast.Name, frozenset[Definition]] | None = function.__dict__.get("_reaching")
        if known is None:  # depends on nothing outside the function
            scope = index_of(part_of(function)).scopes[function]
            known = reaching_definitions(function.body, (scope,))
            function.__dict__["_reaching"] = known
        return known

    def _reaching_in_module(self) -> dict[ast.Name, frozenset[Definition]]:
        parts = self.module.own_code()

        def compute() -> dict[ast.Name, frozenset[Definition]]:
            body = [statement for part in parts for statement in part.body]
            return reaching_definitions(body, [index_of(part).top for part in parts])

        return self.module.memo.get(("reaching", *parts), compute, {})

    def value_of(self, expression: ast.expr | None) -> ast.expr | None:
        """The expression a value comes from: follows names to their single definition, and ``(x := v)`` and the like.

        Stops at what is no name, and at names with several definitions, parameters and unpacked elements.
        """
        for _ in range(8):
            if isinstance(expression, ast.NamedExpr):
                expression = expression.value
                continue
            if not isinstance(expression, ast.Name):
                return expression
            definitions = self.definitions(expression)
            if len(definitions) != 1:
                return expression
            (definition,) = definitions
            if definition.kind is not Binding.ASSIGNMENT or definition.value is None:
                return expression
            value = element_of(definition.value, definition.path)
            if value is None:
                return expression
            expression = value
        return expression

    def literal(self, expression: ast.expr | None) -> object:
        """The value of a literal, or of a name whose only binding in its scope is one; else ``UNKNOWN``."""
        value = literal_of(expression)
        if value is UNKNOWN and isinstance(expression, ast.Name):
            definitions = self._resolver.definitions(expression.id, scope_at(expression))
            if len(definitions) == 1 and definitions[0].kind is Binding.ASSIGNMENT:
                source, path = definitions[0].value, definitions[0].path
                return literal_of(element_of(source, path) if path and source is not None else source)
        return value

    # -- kinds ------------------------------------------------------------------------------------------------------

    def kind(self, expression: ast.expr | None) -> Kind | None:
        """What an expression is to PyTorch, or None where nothing proves or suggests it."""
        return self._inference.kind(expression)

    def attribute_kind(self, owner: ast.ClassDef, name: str) -> Kind | None:
        """What ``self.<name>`` is in a class of this file."""
        return self._inference.of_class_attribute(owner, name)

    def definition_kind(self, definition: Definition) -> Kind | None:
        """What a name is by one of its definitions."""
        return self._inference.of_definition(definition)

    # -- functions and classes of this file -------------------------------------------------------------------------

    def local_class(self, expression: ast.expr | None) -> ast.ClassDef | None:
        """The class of this file that an expression names (its header, for a top-level class)."""
        node = self._local(expression, Binding.CLASS)
        return node if isinstance(node, ast.ClassDef) else None

    def local_function(self, expression: ast.expr | None) -> FunctionNode | None:
        """The function of this file that an expression names."""
        node = self._local(expression, Binding.FUNCTION)
        return node if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else None

    def _local(self, expression: ast.expr | None, kind: Binding) -> ast.AST | None:
        if not isinstance(expression, ast.Name):
            return None
        if not any(definition.kind is kind for definition in self.bindings(expression)):
            return None  # asked before paths are followed: most names are of something else
        definitions = self.definitions(expression)
        last = definitions[-1] if definitions else None
        if last is None or any(definition.kind is not kind for definition in definitions):
            return None
        return last.node

    def class_of_self(self, expression: ast.expr | None) -> ast.ClassDef | None:
        """The class in whose method ``expression`` is the method's own first parameter (``self``)."""
        if not isinstance(expression, ast.Name):
            return None
        function = enclosing_function(expression)
        while function is not None:
            holder = parent_of(function)
            if isinstance(holder, ast.ClassDef):
                if first_parameter(function) != expression.id or is_static(function):
                    return None
                return holder
            if expression.id in index_of(part_of(function)).scopes[function].definitions:
                return None
            function = enclosing_function(function)
        return None

    def local_bases(self, node: ast.ClassDef) -> tuple[ast.ClassDef, ...]:
        """The base classes of a class that are classes of this file."""
        bases = (self.local_class(base) for base in node.bases)
        return tuple(base for base in bases if base is not None and base is not node)

    def block_of(self, statement: ast.stmt) -> Sequence[ast.stmt]:
        """The statements of the block in which a statement stands: for one of the module's own code, all of that."""
        parent = parent_of(statement)
        if parent is None:
            own = [item for part in self.module.own_code() for item in part.body]
            return own if statement in own else part_of(statement).body
        blocks = (getattr(parent, name, None) for name in ("body", "orelse", "finalbody"))
        found = next((block for block in blocks if isinstance(block, list) and statement in block), None)
        return found if found is not None else part_of(statement).body

    def ancestors(self, node: ast.ClassDef) -> frozenset[str]:
        """Canonical names of all base classes, direct and through classes of this file."""

        def compute() -> frozenset[str]:
            found: set[str] = set()
            for base in node.bases:
                target = base.value if isinstance(base, ast.Subscript) else base
                found |= self.names(target)
                local = self.local_class(target)
                if local is not None and local is not node:
                    found |= self.ancestors(local)
            return frozenset(found)

        return self.module.memo.get(("ancestors", node), compute, _NO_NAMES)

    def is_module_class(self, node: ast.ClassDef) -> bool:
        """Whether a class of this file is a subclass of ``torch.nn.Module`` for certain."""
        return any(name in _MODULE_BASES or torch_api.is_module_class(name) for name in self.ancestors(node))

    def has_unknown_base(self, node: ast.ClassDef) -> bool:
        """Whether a base class, direct or indirect, is neither of this file nor of torch (nor ``object``)."""
        for base in node.bases:
            target = base.value if isinstance(base, ast.Subscript) else base
            local = self.local_class(target)
            if local is not None and local is not node:
                if self.has_unknown_base(local):
                    return True
                continue
            names = self.names(target)
            builtin = isinstance(target, ast.Name) and target.id in _BUILTINS and not self.definitions(target)
            harmless = ("torch.", "abc.ABC", "typing.Generic", "typing.Protocol")
            if not builtin and not (names and all(name.startswith(harmless) for name in names)):
                return True
        return False

    def find_method(self, node: ast.ClassDef, name: str) -> FunctionNode | None:
        """A method of a class or of its bases in this file."""
        own = self.module.method(node, name)
        if own is not None:
            return own
        inherited = (self.module.method(base, name) for base in self.lineage(node)[1:])
        return next((method for method in inherited if method is not None), None)

    def methods_by_name(self, node: ast.ClassDef) -> dict[str, FunctionNode]:
        """What ``find_method`` finds, for every name: who asks depends on each method of the class."""
        owners = reversed(self.lineage(node))
        return {method.name: method for owner in owners for method in self.module.methods(owner)}

    def method_owners(self, node: ast.ClassDef) -> dict[str, ast.ClassDef]:
        """Where ``find_method`` finds a method, for every name: who asks depends on the names only."""
        owners = reversed(self.lineage(node))
        return {name: owner for owner in owners for name in self.module.method_names(owner)}

    def lineage(self, node: ast.ClassDef) -> tuple[ast.ClassDef, ...]:
        """A class and its bases in this file, nearest first."""

        def compute() -> tuple[ast.ClassDef, ...]:
            found = [node]
            for current in found:
                found += [base for base in self.local_bases(current) if base not in found]
            return tuple(found)

        return self.module.memo.get(("lineage", node), compute, (node,))

    def returned_values(self, function: FunctionNode) -> tuple[ast.expr, ...]:
        """The expressions that a function returns (of its own body, not of nested functions)."""
        return tuple(
            node.value
            for node in nodes_within(function, ast.Return)
            if isinstance(node, ast.Return) and node.value is not None and enclosing_function(node) is function
        )

    def given_for(self, parameter: ast.arg, function: FunctionNode) -> tuple[ast.expr, ...]:
        """What the calls of a function in this file pass for a parameter; empty if one of them cannot be read."""
        owner = parent_of(function) if isinstance(parent_of(function), ast.ClassDef) else None
        called = owner.name if isinstance(owner, ast.ClassDef) and function.name == "__init__" else function.name
        positional = [item.arg for item in (*function.args.posonlyargs, *function.args.args)]
        if owner is not None and not is_static(function):
            positional = positional[1:]
        position = positional.index(parameter.arg) if parameter.arg in positional else None
        values: list[ast.expr] = []
        for call in self.module.calls_of(called):
            if not self._calls_function(call, function, owner if isinstance(owner, ast.ClassDef) else None):
                continue
            value = argument(call, position, parameter.arg)
            if value is None:
                if has_unknown_arguments(call):
                    return ()
                continue
            values.append(value)
        return tuple(values)

    def callers(self, function: FunctionNode) -> tuple[ast.Call, ...]:
        """The calls of a function or method in this file."""
        owner = parent_of(function)
        holder = owner if isinstance(owner, ast.ClassDef) else None
        return tuple(
            call for call in self.module.calls_of(function.name) if self._calls_function(call, function, holder)
        )

    def _calls_function(self, call: ast.Call, function: FunctionNode, owner: ast.ClassDef | None) -> bool:
        if owner is None:
            return self.local_function(call.func) is function
        if function.name == "__init__":
            return self.local_class(call.func) is owner
        if not isinstance(call.func, ast.Attribute):
            return False
        receiver = self.class_of_self(call.func.value)
        if receiver is None:
            kind = self.kind(call.func.value)
            receiver = kind.class_node if kind is not None else None
        return receiver is not None and self.find_method(receiver, function.name) is function

    def methods_called_on(self, name: str, function: FunctionNode) -> frozenset[str]:
        """The methods that a function calls on the local ``name``."""
        known: dict[str, set[str]] | None = function.__dict__.get("_called_on")
        if known is None:
            known = {}
            for node in nodes_within(function, ast.Call):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                    base = node.func.value
                    if isinstance(base, ast.Name):
                        known.setdefault(base.id, set()).add(node.func.attr)
            function.__dict__["_called_on"] = known
        return frozenset(known.get(name, ()))


def kind_now(memo: Memo, expression: ast.expr) -> Kind | None:
    """The kind of an expression in the version of the file that is analysed now: values that are kept over versions
    ask in this way, so that they need not be made again when only a kind changes."""
    semantics = memo.asked
    return semantics.kind(expression) if isinstance(semantics, Semantics) else None


def _reaches_all_after(definition: Definition, function: FunctionNode, use: ast.Name) -> bool:
    """Whether the only binding of a name in a function reaches a use whatever path is taken: a parameter, or a
    statement of the function's own block before the use."""
    if definition.kind is Binding.PARAMETER:
        return True
    statement = definition.node
    if definition.kind is not Binding.ASSIGNMENT or parent_of(statement) is not function:
        return False
    index = index_of(part_of(function))
    return index.extent(statement)[1] <= index.place(use)


def _position(definition: Definition) -> tuple[int, int]:
    return position_of(definition.node)
