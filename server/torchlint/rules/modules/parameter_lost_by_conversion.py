from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint import torch_api
from torchlint.finding import Applicability
from torchlint.fixes import Editor
from torchlint.fixes.arguments import with_keyword
from torchlint.idioms.values.devices import device_evidence
from torchlint.idioms.values.dtype_conversions import conversion_of, is_exact, means_the_same
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_call
from torchlint.semantics.nodes import (
    are_exclusive,
    argument,
    contains,
    enclosing_function,
    has_unknown_arguments,
    nodes_within,
    shortened,
    statement_of,
)
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

_CASTS = frozenset({"to", "cuda", "cpu", "xpu", "half", "float", "double", "bfloat16", "type", "type_as", "clone"})
_SHAPES = frozenset({"contiguous", "view", "view_as", "reshape", "flatten", "squeeze", "unsqueeze", "expand", "repeat"})
_ORDERS = frozenset({"t", "transpose", "permute", "expand_as"})
_SUMS = frozenset({"mul", "div", "add", "sub", "neg", "sqrt", "exp", "log", "abs"})
_CONVERSIONS = _CASTS | _SHAPES | _ORDERS | _SUMS
#: Conversions that give the parameter itself back where nothing has to be converted.
_OFTEN_NOTHING = frozenset({"float", "cpu", "contiguous"})
#: Methods that always give the parameter itself back.
_SELF = frozenset({"requires_grad_"})


class ParameterLostByConversion(Rule):
    """## What it does

    Reports `self.x = nn.Parameter(...).to(...)` and its kind: a parameter on which a conversion (`.cuda()`, `.half()`,
    `.view(...)`, arithmetic) is called before it is stored on the object, put into `_parameters`, or returned by a
    function that says to return a parameter.

    ## Why is this bad?

    The result of the conversion is a tensor that was computed from the parameter, not a parameter. It is not
    registered: `parameters()` and the state dict do not have it, an optimizer never updates it, and one that is given
    it raises "can't optimize a non-leaf Tensor".

    ## Example

    ```python
    import torch
    import torch.nn as nn


    class Scale(nn.Module):
        def __init__(self, width, device):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(width)).to(device)
    ```

    ## Use instead

    ```python
    import torch
    import torch.nn as nn


    class Scale(nn.Module):
        def __init__(self, width, device):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(width, device=device))
    ```

    Where the data are no tensor that is made in place, the fix moves the conversion inside:
    `nn.Parameter(data.to(device))`.

    ## Exceptions

    A parameter that is registered elsewhere too, and a result that is made a parameter again. `.float()`, `.cpu()` and
    `.contiguous()` give the parameter itself back where nothing has to be converted: then the code works by luck, and
    the finding is a warning.

    ## References

    - [torch.nn.Parameter](https://docs.pytorch.org/docs/stable/generated/torch.nn.parameter.Parameter.html)
    - [pytorch/pytorch#39062](https://github.com/pytorch/pytorch/issues/39062)
    """

    code = "TL105"
    name = "parameter-lost-by-conversion"
    level = Level.ERROR
    fix = FixKind.SAFE
    summary = "The converted copy of a parameter is no parameter: it is not registered and never trained."

    @on_call("torch.nn.Parameter")
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        converted, conversions = _converted(call, unit.semantics)
        data = argument(call, 0, "data")
        if converted is None or all(_is_done_already(data, node, unit.semantics) for _, node in conversions):
            return
        found = _stored_on_self(converted, call, unit.semantics)
        if found is None:
            yield from self._check_passed_on(call, converted, conversions, unit.semantics)
            return
        target, owner = found
        by_luck = all(name in _OFTEN_NOTHING or _stays(node) for name, node in conversions)
        name = f"`self.{target.attr}`"
        how = "the arithmetic" if conversions[-1][0] == "" else f"`.{conversions[-1][0]}()`"
        module = unit.semantics.is_module_class(owner)
        if by_luck:
            message = (
                f"{name} is a parameter only by luck: where {how} has something to convert it gives a plain tensor."
            )
        elif module:
            message = f"{how[0].upper()}{how[1:]} makes {name} a plain tensor: it is not registered and never trained."
        else:
            message = f"{how[0].upper()}{how[1:]} makes {name} a tensor that is no leaf: an optimizer refuses it."
        yield self.found(
            converted,
            message,
            related=[(call, "the parameter that gets lost")],
            fixes=_fixes(call, converted, conversions, unit.semantics),
            severity=Level.WARNING.severity if by_luck else None,
        )

    def _check_passed_on(
        self, call: ast.Call, converted: ast.expr, conversions: list[tuple[str, ast.AST]], semantics: Semantics
    ) -> Iterator[Diagnosis]:
        """A converted parameter that becomes one of ``_parameters``, or is returned where a parameter is promised."""
        place = _taken_for_parameter(converted, semantics)
        if place is None or all(name in _OFTEN_NOTHING or _stays(node) for name, node in conversions):
            return
        how = "The arithmetic" if conversions[-1][0] == "" else f"`.{conversions[-1][0]}()`"
        yield self.found(
            converted,
            f"{how} makes {place} a tensor that is no leaf: it gets no gradient, and an optimizer refuses it.",
            related=[(call, "the parameter that gets lost")],
            fixes=_fixes(call, converted, conversions, semantics),
        )


def _taken_for_parameter(value: ast.expr, semantics: Semantics) -> str | None:
    """What a value becomes, in words, where it is taken for a parameter without an attribute of ``self``."""
    statement = parent_of(value)
    match statement:
        case ast.Assign(targets=[ast.Subscript(value=ast.Attribute(attr="_parameters")) as target]):
            return f"`{shortened(target, 40)}`"
        case ast.Return():
            function = enclosing_function(statement)
            promised = function.returns if function is not None else None
            if function is not None and promised is not None and semantics.is_named(promised, "torch.nn.Parameter"):
                return f"the parameter that `{function.name}` promises"
    return None


def _converted(call: ast.Call, semantics: Semantics) -> tuple[ast.expr | None, list[tuple[str, ast.AST]]]:
    """The expression that a parameter ends in, with the conversions on the way: method ("" for arithmetic), node."""
    current: ast.expr = call
    conversions: list[tuple[str, ast.AST]] = []
    for _ in range(12):
        parent = parent_of(current)
        match parent:
            case ast.Attribute(attr=name) if isinstance(parent_of(parent), ast.Call):
                outer = parent_of(parent)
                assert isinstance(outer, ast.Call)
                if outer.func is not parent or not (name in _CONVERSIONS or name in _SELF):
                    return None, []
                current = outer
                if name in _CONVERSIONS:
                    conversions.append((name, outer))
            case ast.BinOp() | ast.UnaryOp():
                current = parent
                conversions.append(("", parent))
            case ast.Assign(targets=[ast.Name()]):
                following = _only_use(parent, semantics)
                if following is None:
                    return current, conversions
                current = following
            case _:
                return current, conversions
    return None, []


def _only_use(statement: ast.Assign, semantics: Semantics) -> ast.Name | None:
    """The one place where the name that a statement binds is used; None where there are several."""
    function = enclosing_function(statement)
    if function is None:
        return None
    (target,) = statement.targets
    assert isinstance(target, ast.Name)
    uses = [
        node
        for node in nodes_within(function, ast.Name)
        if isinstance(node, ast.Name) and node.id == target.id and isinstance(node.ctx, ast.Load)
    ]
    if len(uses) != 1 or [definition.node for definition in semantics.definitions(uses[0])] != [statement]:
        return None
    return uses[0]


def _stored_on_self(
    value: ast.expr, parameter: ast.Call, semantics: Semantics
) -> tuple[ast.Attribute, ast.ClassDef] | None:
    """The attribute of ``self`` that receives a value and nothing of its kind later, with its class."""
    statement = parent_of(value)
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    target = next((one for one in targets if isinstance(one, ast.Attribute)), None)
    if target is None:
        return None
    owner = semantics.class_of_self(target.value)
    if owner is None:
        return None
    for write in semantics.module.attribute_writes(owner, target.attr):
        made_again = write.statement is not statement and semantics.is_call_to(write.value, "torch.nn.Parameter")
        if made_again and not are_exclusive(write.statement, statement_of(value)):
            return None
    if semantics.find_method(owner, target.attr) is not None:
        return None  # a property
    return target, owner


def _stays(node: ast.AST) -> bool:
    """Whether a conversion is one to what a parameter is by default: ``.to("cpu")``."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "to"
        and len(node.args) == 1
        and isinstance(node.args[0], ast.Constant)
        and node.args[0].value == "cpu"
    )


def _is_done_already(data: ast.expr | None, conversion: ast.AST, semantics: Semantics) -> bool:
    """Whether the data of a parameter went through the same conversion before, or was made so: nothing is left to
    convert, and the parameter itself comes back."""
    if not isinstance(conversion, ast.Call) or not isinstance(conversion.func, ast.Attribute):
        return False
    given = [ast.unparse(item) for item in (*conversion.args, *conversion.keywords)]
    value = semantics.value_of(data)
    if conversion.func.attr not in ("to", "cuda") or not isinstance(value, ast.Call):
        return False
    if isinstance(value.func, ast.Attribute) and value.func.attr == conversion.func.attr:
        return given == [ast.unparse(item) for item in (*value.args, *value.keywords)]
    device = argument(value, None, "device")
    return device is not None and conversion.func.attr == "to" and given == [ast.unparse(device)]


def _fixes(
    call: ast.Call, converted: ast.expr, conversions: list[tuple[str, ast.AST]], semantics: Semantics
) -> list[FixPlan]:
    data = argument(call, 0, "data")
    if data is None or any(name == "" for name, _ in conversions) or not contains(converted, call):
        return []
    keywords, last = _keywords_for(data, [node for _, node in conversions], semantics)
    if last is None:
        title = "Convert before making the parameter"
        return [FixPlan(title, "safe", lambda edit: _move_inside(edit, call, data, converted))]
    facts = torch_api.factory_facts(semantics.name(data.func)) if isinstance(data, ast.Call) else None
    # Each device has a random number generator of its own: other numbers would be drawn.
    safe: Applicability = "safe" if facts is not None and facts.deterministic else "unsafe"
    title = "Make the parameter on the device" if "device" in keywords else "Make the parameter in that dtype"
    return [FixPlan(title, safe, lambda edit: _make_there(edit, call, data, converted, keywords, last))]


def _keywords_for(
    data: ast.expr, conversions: list[ast.AST], semantics: Semantics
) -> tuple[dict[str, ast.expr | str], ast.AST | None]:
    """The ``device`` and ``dtype`` with which a factory makes what the first conversions give, and the last of those
    (None: there are none)."""
    keywords: dict[str, ast.expr | str] = {}
    last: ast.AST | None = None
    for conversion in conversions:
        device = _device_for(data, conversion, semantics)
        dtype = _dtype_for(data, conversion, semantics)
        keyword, given = ("device", device) if device is not None else ("dtype", dtype)
        if given is None or keyword in keywords:
            break
        keywords[keyword], last = given, conversion
    return keywords, last


def _device_for(data: ast.expr, move: ast.AST, semantics: Semantics) -> ast.expr | str | None:
    """Where a conversion moves a tensor that is made in place and could be made there: the device, or its text."""
    if not isinstance(data, ast.Call) or not isinstance(move, ast.Call) or has_unknown_arguments(data):
        return None
    facts = torch_api.factory_facts(semantics.name(data.func))
    given = {item.arg for item in data.keywords}
    if facts is None or facts.like or not facts.takes_device or not given.isdisjoint({"device", "out", "generator"}):
        return None
    assert isinstance(move.func, ast.Attribute)
    if move.func.attr == "cuda" and not move.args and not move.keywords:
        return '"cuda"'
    if move.func.attr != "to" or move.keywords or len(move.args) != 1:
        return None
    return move.args[0] if device_evidence(semantics, move.args[0]) is not None else None


def _dtype_for(data: ast.expr, conversion: ast.AST, semantics: Semantics) -> ast.expr | str | None:
    """What a conversion converts a tensor to that is made in place and could be made so: the dtype, or its name."""
    if not isinstance(data, ast.Call) or not isinstance(conversion, ast.Call) or has_unknown_arguments(data):
        return None
    found = conversion_of(conversion, semantics)
    if found is None or not found.alone or not means_the_same(data, found, semantics):
        return None
    return (found.argument or f"torch.{found.name}") if is_exact(data, found, semantics) else None


def _make_there(
    edit: Editor,
    call: ast.Call,
    data: ast.expr,
    converted: ast.expr,
    keywords: dict[str, ast.expr | str],
    last: ast.AST,
) -> None:
    """Turn ``Parameter(torch.ones(n)).to(device)`` into ``Parameter(torch.ones(n, device=device))``."""
    inner = edit.source(data)
    for keyword, given in keywords.items():
        if not isinstance(given, str):
            written = edit.source(given)
        else:
            written = edit.spell(given) if keyword == "dtype" else given
        inner = with_keyword(inner, keyword, written)
    _replace_data(edit, call, data, converted, inner, len(edit.source(last)))


def _move_inside(edit: Editor, call: ast.Call, data: ast.expr, converted: ast.expr) -> None:
    """Turn ``Parameter(data).to(x)`` into ``Parameter(data.to(x))``."""
    simple = isinstance(data, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
    inner = edit.source(data) if simple else f"({edit.source(data)})"
    _replace_data(edit, call, data, converted, inner, len(edit.source(call)))


def _replace_data(edit: Editor, call: ast.Call, data: ast.expr, converted: ast.expr, inner: str, behind: int) -> None:
    """Put ``inner`` in the place of the parameter's data, with the conversions from character ``behind`` on."""
    whole, made = edit.source(converted), edit.source(call)
    start, _ = edit.span(call)
    data_start, data_end = edit.span(data)
    edit.replace(converted, made[: data_start - start] + inner + whole[behind:] + made[data_end - start :])
