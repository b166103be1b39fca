from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchlint.frozen import dataclass
from torchlint.rules.base import Diagnosis, Level, Rule, on_call
from torchlint.semantics.index import index_of
from torchlint.semantics.nodes import argument, element_of, enclosing_function, nodes_within
from torchlint.semantics.scopes import AttributeWrite, dotted
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of, part_of

_SUBSET = "torch.utils.data.Subset"


@dataclass(frozen=True, eq=False, slots=True)
class _Part:
    """A subset and the name (``train``, ``self.train``) by which the source knows it."""

    path: str
    made: ast.Call


class SubsetTransformOverwritten(Rule):
    """## What it does

    Reports `train.dataset.transform = ...` where `train` is one of several subsets of one dataset, made by
    `random_split` or `Subset`.

    ## Why is this bad?

    A `Subset` holds no data: its `dataset` is the one that all subsets share. Setting a transform through one of them
    sets it for all: the validation data are augmented, or the training loses its augmentation.

    ## Example

    ```python
    from torch.utils.data import random_split

    dataset = ImageFolder(root)
    train, valid = random_split(dataset, [0.9, 0.1])
    train.dataset.transform = augment
    valid.dataset.transform = resize
    ```

    ## Use instead

    ```python
    from torch.utils.data import Subset, random_split

    train, valid = random_split(range(len(ImageFolder(root))), [0.9, 0.1])
    train = Subset(ImageFolder(root, transform=augment), train.indices)
    valid = Subset(ImageFolder(root, transform=resize), valid.indices)
    ```

    ## Exceptions

    Subsets of two dataset objects, a subset whose `dataset` is replaced by a copy, the same transform set for all, and
    an assignment in a loop, which switches on purpose.

    ## References

    - [torch.utils.data.random_split](https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.random_split)
    """

    code = "TL510"
    name = "subset-transform-overwritten"
    level = Level.ERROR
    summary = "Subsets share one dataset: a transform that is set through one is set for all."

    @on_call("torch.utils.data.random_split", _SUBSET)
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        writes = _writes(call, unit)
        if not any(write.base.endswith(".dataset") for write in writes):
            return
        parts = _parts(call, unit)
        if len(parts) < 2:
            return
        if any(write.name == "dataset" and write.base == part.path for write in writes for part in parts):
            return
        by_attribute: dict[str, list[tuple[_Part, AttributeWrite]]] = {}
        for write in writes:
            part = next((part for part in parts if write.base == f"{part.path}.dataset"), None)
            if part is not None and _sets_transform(write) and _is_still(part, write, unit.semantics):
                by_attribute.setdefault(write.name, []).append((part, write))
        for attribute, found in by_attribute.items():
            if not _all_agree(found, parts) and not any(_is_in_loop(write.statement) for _, write in found):
                yield self._diagnose(attribute, found, parts)

    def _diagnose(self, attribute: str, found: list[tuple[_Part, AttributeWrite]], parts: list[_Part]) -> Diagnosis:
        part, write = found[-1]
        others = [other.path for other in parts if other.path != part.path]
        named = " and ".join(f"`{other}`" for other in others[:3])
        message = f"`{part.path}.dataset` is the dataset of {named} too: their `{attribute}` is set as well."
        related: list[tuple[ast.AST, str]] = [(part.made, "the subsets share their dataset")]
        related += [(earlier.target, "overwritten") for _, earlier in found[:-1]]
        return self.found(write.target, message, related=related)


def _writes(call: ast.Call, unit: Unit) -> list[AttributeWrite]:
    """The assignments to attributes in the function (or module) of a call."""
    function = enclosing_function(call)
    if function is not None:
        named = index_of(part_of(function)).scopes[function].writes
        return [*named, *_writes_to_elements(nodes_within(function, ast.Assign))]
    named = [write for index in unit.indexes for write in index.top.writes]
    return [*named, *_writes_to_elements(unit.all(ast.Assign))]


def _writes_to_elements(statements: Iterable[ast.AST]) -> Iterator[AttributeWrite]:
    """``subsets[1].dataset.transform = ...``, for the parts of a split that have no names."""
    for statement in statements:
        match statement:
            case ast.Assign(
                targets=[
                    ast.Attribute(
                        value=ast.Attribute(
                            value=ast.Subscript(value=holder, slice=ast.Constant(value=int(index))), attr="dataset"
                        ),
                        attr=name,
                    ) as target
                ],
                value=value,
            ) if (path := dotted(holder)) is not None:
                yield AttributeWrite(f"{path}[{index}].dataset", name, target, statement, value)


def _parts(call: ast.Call, unit: Unit) -> list[_Part]:
    """The named subsets that share the dataset of a call; those of ``Subset`` belong to the first call."""
    semantics = unit.semantics
    if not semantics.is_named(call.func, _SUBSET):
        targets = _targets(call)
        whole = dotted(targets)
        if whole is not None:
            return [_Part(f"{whole}[{number}]", call) for number in range(_count(call, unit))]
        elements = targets.elts if isinstance(targets, ast.Tuple | ast.List) else []
        paths = [path for element in elements if (path := dotted(element)) is not None and path.strip("_")]
        return [_Part(path, call) for path in paths]
    dataset = argument(call, 0, "dataset")
    if not isinstance(dataset, ast.Name):
        return []
    found: list[_Part] = []
    for other in _calls_beside(call, unit):
        shared = argument(other, 0, "dataset")
        target = dotted(_targets(other))
        same = isinstance(shared, ast.Name) and shared.id == dataset.id
        if target is None or not same or not semantics.is_named(other.func, _SUBSET):
            continue
        if semantics.definitions(shared) == semantics.definitions(dataset):  # type: ignore[arg-type]
            found.append(_Part(target, other))
    return found if found and found[0].made is call else []


def _count(call: ast.Call, unit: Unit) -> int:
    """How many parts a split makes: as many as it is given lengths, else at least two."""
    lengths = unit.semantics.value_of(argument(call, 1, "lengths"))
    return len(lengths.elts) if isinstance(lengths, ast.List | ast.Tuple) else 2


def _calls_beside(call: ast.Call, unit: Unit) -> Iterator[ast.Call]:
    function = enclosing_function(call)
    if function is None:
        yield from (other for other in unit.all(ast.Call) if enclosing_function(other) is None)
        return
    yield from (other for other in nodes_within(function, ast.Call) if isinstance(other, ast.Call))


def _targets(call: ast.Call) -> ast.expr | None:
    match parent_of(call):
        case ast.Assign(targets=[target]) | ast.AnnAssign(target=target) as statement if statement.value is call:
            return target
        case ast.Tuple(elts=values) as beside:
            match parent_of(beside):
                case ast.Assign(targets=[ast.Tuple(elts=targets)]) if len(targets) == len(values):
                    return targets[values.index(call)]
    return None


def _sets_transform(write: AttributeWrite) -> bool:
    return "transform" in write.name or "augment" in write.name


def _is_still(part: _Part, write: AttributeWrite, semantics: Semantics) -> bool:
    """Whether the name still stands for the subset where the attribute is set."""
    name = write.target.value
    while isinstance(name, ast.Attribute | ast.Subscript):
        name = name.value
    if not isinstance(name, ast.Name) or name.id != part.path.partition("[")[0]:
        return "." in part.path
    definitions = semantics.definitions(name)
    if len(definitions) != 1 or definitions[0].value is None:
        return False
    value = definitions[0].value
    return value is part.made or element_of(value, definitions[0].path) is part.made


def _all_agree(found: list[tuple[_Part, AttributeWrite]], parts: list[_Part]) -> bool:
    """Whether every subset is given the same transform."""
    values = {ast.dump(write.value) for _, write in found if write.value is not None}
    return len({part.path for part, _ in found}) == len(parts) and len(values) == 1


def _is_in_loop(statement: ast.stmt) -> bool:
    current: ast.AST | None = statement
    while current is not None and not isinstance(current, ast.FunctionDef | ast.AsyncFunctionDef):
        if isinstance(current, ast.For | ast.AsyncFor | ast.While):
            return True
        current = parent_of(current)
    return False
