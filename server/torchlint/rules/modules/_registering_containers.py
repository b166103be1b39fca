"""Fixes for a container of Python that holds layers or parameters: the container of torch that registers them."""

from __future__ import annotations

import ast

from torchlint.fixes import Editor
from torchlint.idioms.modules.container_parts import Sort
from torchlint.idioms.modules.plain_containers import PlainContainer
from torchlint.idioms.surroundings.stated import comments_around, count_of_comments
from torchlint.rules.base import FixPlan
from torchlint.semantics.classes import ClassView
from torchlint.semantics.kinds import Kind, What
from torchlint.semantics.scopes import last_name
from torchlint.semantics.semantics import Semantics
from torchlint.syntax import parent_of

_CONTAINERS = (ast.List, ast.ListComp, ast.Tuple, ast.Dict, ast.DictComp)
_LIST_METHODS = frozenset({"append", "extend", "insert", "pop"})
_DICT_METHODS = frozenset({"items", "keys", "values", "pop", "update", "clear"})


def module_kind(element: ast.expr | None, semantics: Semantics) -> Kind | None:
    """The kind of an element that is a layer, model or parameter for certain."""
    kind = semantics.kind(element)
    if kind is None or not (kind.is_module or kind.what is What.PARAMETER):
        return None
    return kind if kind.proven else None


def fixes_of(container: PlainContainer, parameters: bool, view: ClassView) -> list[FixPlan]:
    """Keep the elements in a list or dict of torch, or in a ``Sequential`` where a loop only calls them in order."""
    if not _can_be_wrapped(container, parameters, view):
        return []
    if container.sort is Sort.DICT:
        name = "ParameterDict" if parameters else "ModuleDict"
    else:
        name = "ParameterList" if parameters else "ModuleList"
    fixes = [
        FixPlan(f"Keep them in an `nn.{name}`", "unsafe", lambda edit: _wrap(edit, container, f"torch.nn.{name}", view))
    ]
    loop = _only_loop(container, view)
    if name == "ModuleList" and loop is not None and isinstance(container.write.value, ast.List | ast.ListComp):
        fixes.append(
            FixPlan(
                "Keep them in an `nn.Sequential` and call that",
                "unsafe",
                lambda edit: _to_sequential(edit, container, loop),
            )
        )
    return fixes


def _can_be_wrapped(container: PlainContainer, parameters: bool, view: ClassView) -> bool:
    """Whether a registering container takes all elements, and has all methods that the class uses."""
    kinds = [module_kind(element, view.semantics) for element in container.elements]
    if any(kind is None or (kind.what is What.PARAMETER) != parameters for kind in kinds):
        return False
    if len([write for write in view.writes(container.name) if not write.augmented]) != 1:
        return False
    supported = _DICT_METHODS if container.sort is Sort.DICT else _LIST_METHODS
    for read in view.reads(container.name):
        parent = parent_of(read)
        if isinstance(parent, ast.Attribute) and parent.attr not in supported:
            return False
    if not _can_be_spelled(container):
        return False
    if container.sort is Sort.DICT:
        return _has_text_keys(container, view.semantics)
    return not any(isinstance(growth, ast.Assign) for growth in container.growth)


def _can_be_spelled(container: PlainContainer) -> bool:
    """Whether putting a call around the container, and around those inside it, is all that there is to do."""
    match container.write.value:
        case ast.BinOp(op=ast.Mult(), left=ast.List(elts=[ast.Call()])):
            return True
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return all(isinstance(side, ast.List | ast.ListComp) and _holds_lists_only(side) for side in (left, right))
        case ast.BinOp() | None:
            return False
        case value:
            grown = [call.args[-1] for call in container.growth if isinstance(call, ast.Call) and call.args]
            return all(_holds_lists_only(one) for one in (value, *grown))


def _holds_lists_only(value: ast.expr) -> bool:
    """Whether all containers directly inside one are lists, to any depth."""
    inside = value.elts if isinstance(value, ast.List | ast.Tuple) else [getattr(value, "elt", None)]
    if isinstance(value, ast.Dict | ast.DictComp):
        inside = value.values if isinstance(value, ast.Dict) else [value.value]
        return not any(isinstance(element, _CONTAINERS) for element in inside)
    if any(isinstance(element, ast.Tuple | ast.Dict | ast.DictComp | ast.Starred) for element in inside):
        return False
    return all(_holds_lists_only(element) for element in inside if isinstance(element, ast.List | ast.ListComp))


def _has_text_keys(container: PlainContainer, semantics: Semantics) -> bool:
    keys: list[ast.expr | None] = []
    match container.display:
        case ast.Dict(keys=written):
            keys += written
        case ast.DictComp(key=key):
            keys.append(key)
        case ast.Call(args=[], keywords=named):
            keys += [ast.Constant(item.arg) if item.arg is not None else None for item in named]
        case ast.Call(func=function, args=[ast.List(elts=pairs)], keywords=[]) if last_name(function) == "OrderedDict":
            keys += [pair.elts[0] if isinstance(pair, ast.Tuple) and len(pair.elts) == 2 else None for pair in pairs]
        case _:
            return False
    for growth in container.growth:
        if not isinstance(growth, ast.Assign) or not isinstance(growth.targets[0], ast.Subscript):
            return False
        keys.append(growth.targets[0].slice)
    return all(_is_text_key(key, semantics) for key in keys)


def _is_text_key(key: ast.expr | None, semantics: Semantics) -> bool:
    """Whether a key may be one of an `nn.ModuleDict`: a text without a dot that is no name of its own."""
    literal = semantics.literal(key)
    if isinstance(literal, str):
        return bool(literal) and "." not in literal and literal not in _DICT_METHODS
    if isinstance(key, ast.JoinedStr):
        return not any(isinstance(part, ast.Constant) and "." in str(part.value) for part in key.values)
    if isinstance(key, ast.Call) and isinstance(key.func, ast.Name):
        return key.func.id == "str"
    kind = semantics.kind(key)
    return kind is not None and kind.what is What.TEXT


def _wrap(edit: Editor, container: PlainContainer, name: str, view: ClassView) -> None:
    value = container.write.value
    assert value is not None
    spelling = edit.spell(name)
    match value:
        case ast.List(elts=[]) | ast.Dict(keys=[]):
            edit.replace(value, f"{spelling}()")
        case ast.Call(args=[], keywords=[]) if last_name(value.func) in ("list", "tuple", "dict", "OrderedDict"):
            edit.replace(value, f"{spelling}()")
        case ast.BinOp(op=ast.Mult(), left=ast.List(elts=[element]), right=count) if isinstance(element, ast.Call):
            repeated = f"[{edit.source(element)} for _ in range({edit.source(count)})]"
            edit.replace(value, f"{spelling}({repeated})")
        case ast.Tuple() if not edit.source(value).startswith("("):
            edit.wrap(value, f"{spelling}([", "])")
        case _:
            edit.wrap(value, f"{spelling}(", ")")
            _wrap_inner(edit, value, spelling)
    for growth in container.growth:
        match growth:
            case ast.Call(func=ast.Attribute(attr="append"), args=[ast.List() | ast.ListComp() as grown]):
                edit.wrap(grown, f"{spelling}(", ")")
                _wrap_inner(edit, grown, spelling)
            case _:
                pass


def _wrap_inner(edit: Editor, value: ast.expr, spelling: str) -> None:
    """Wrap the lists inside a list, too."""
    elements = value.elts if isinstance(value, ast.List | ast.Tuple) else [getattr(value, "elt", None)]
    for element in elements:
        if isinstance(element, ast.List | ast.ListComp):
            edit.wrap(element, f"{spelling}(", ")")
            _wrap_inner(edit, element, spelling)


def _only_loop(container: PlainContainer, view: ClassView) -> ast.For | None:
    """The loop ``for layer in self.layers: x = layer(x)`` where the class uses the container nowhere else."""
    reads = list(view.reads(container.name))
    if len(reads) != 1:
        return None
    match parent_of(reads[0]):
        case (
            ast.For(
                target=ast.Name(id=layer),
                iter=iterable,
                body=[
                    ast.Assign(
                        targets=[ast.Name(id=result)],
                        value=ast.Call(func=ast.Name(id=called), args=[ast.Name(id=given)], keywords=[]),
                    )
                ],
                orelse=[],
            ) as loop
        ) if iterable is reads[0] and called == layer and given == result:
            inside = count_of_comments(loop, loop) - len(comments_around(loop)[0])
            return loop if inside == 0 else None
        case _:
            return None


def _to_sequential(edit: Editor, container: PlainContainer, loop: ast.For) -> None:
    value = container.write.value
    assert value is not None
    spelling = edit.spell("torch.nn.Sequential")
    source = edit.source(value)
    elements = source[1:-1] if isinstance(value, ast.List) else f"*{source}"
    edit.replace(value, f"{spelling}({elements})")
    (statement,) = loop.body
    assert isinstance(statement, ast.Assign)
    name = edit.source(statement.targets[0])
    edit.replace(loop, f"{name} = {edit.source(loop.iter)}({name})")
