from __future__ import annotations

import ast
from collections.abc import Iterator
from enum import Enum

from torchlint.fixes.editor import Editor
from torchlint.frozen import dataclass
from torchlint.idioms.data.loader_use import made_by
from torchlint.idioms.data.pipelines import steps_of
from torchlint.idioms.surroundings.expected_errors import is_expected_to_raise
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_call
from torchlint.semantics.nodes import argument
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

_MODULE = "torchvision.transforms."
# What each class does to images was found by running torchvision 0.28 on PIL images, float32 and uint8 tensors.
_TO_TENSOR = frozenset(("ToTensor", "PILToTensor"))
_NEEDS_TENSOR = frozenset(("Normalize", "RandomErasing", "LinearTransformation", "ConvertImageDtype"))
_NEEDS_FLOAT = frozenset(("Normalize", "LinearTransformation"))
_REFUSES_FLOAT = frozenset(
    ("RandomPosterize", "RandomEqualize", "RandAugment", "AutoAugment", "TrivialAugmentWide", "AugMix")
)
#: These always raise on a float tensor; the others draw operations, and most of what they draw raises.
_ALWAYS_REFUSES = frozenset(("RandomPosterize", "RandomEqualize"))
#: An image in, an image of the same sort out.
_KEEPS = frozenset(
    (
        "CenterCrop ColorJitter ElasticTransform GaussianBlur Grayscale Pad RandomAdjustSharpness RandomAffine "
        "RandomAutocontrast RandomCrop RandomGrayscale RandomHorizontalFlip RandomInvert RandomPerspective "
        "RandomResizedCrop RandomRotation RandomSolarize RandomVerticalFlip Resize"
    ).split()
)
_CHOICES = frozenset(("RandomApply", "RandomChoice", "RandomOrder"))


class _Image(Enum):
    UNKNOWN = "unknown"
    FLOAT = "a float tensor"
    BYTES = "a uint8 tensor"


@dataclass(frozen=True, eq=False, slots=True)
class _Step:
    """One transform of a pipeline; ``name`` is empty for one that torchvision does not have, or is not known."""

    name: str
    node: ast.expr


class TransformOrder(Rule):
    """## What it does

    Reports transforms of `torchvision.transforms` in an order that raises: `Normalize` or `RandomErasing` before
    `ToTensor`, a second `ToTensor`, and `RandAugment`, `AutoAugment`, `TrivialAugmentWide`, `AugMix`,
    `RandomPosterize` or `RandomEqualize` on the float tensor that `ToTensor` makes.

    ## Why is this bad?

    The first raise when the first image is loaded, inside a worker process. The policies that draw operations raise
    only when they draw one that takes bytes: a training run ends after some batches.

    ## Example

    ```python
    from torchvision import transforms

    transform = transforms.Compose(
        [
            transforms.Resize(256),
            transforms.Normalize((0.5,), (0.5,)),
            transforms.ToTensor(),
        ]
    )
    ```

    ## Use instead

    ```python
    from torchvision import transforms

    transform = transforms.Compose(
        [
            transforms.Resize(256),
            transforms.ToTensor(),
            transforms.Normalize((0.5,), (0.5,)),
        ]
    )
    ```

    ## Exceptions

    Transforms that accept both images and tensors (most do), those of `transforms.v2` and of other libraries, and what
    stands behind a transform that is not known (a class of your own, `Lambda`): it may give anything.

    ## References

    - [Transforming images](https://docs.pytorch.org/vision/stable/transforms.html)
    """

    code = "TL509"
    name = "transform-order"
    level = Level.ERROR
    fix = FixKind.UNSAFE
    summary = "A transform that gets what it does not take raises when the first image is loaded."

    @on_call("torchvision.transforms.Compose")
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        if _is_part_of_pipeline(call, unit.semantics) or is_expected_to_raise(call):
            return
        image, made = _Image.UNKNOWN, None
        waiting: _Step | None = None  # needs a tensor, in a place where nothing has made one
        for step in _steps(argument(call, 0, "transforms"), unit.semantics):
            if step.name in _TO_TENSOR:
                if waiting is not None:
                    yield self._too_early(waiting, step)
                elif made is not None:
                    yield self._twice(made, step)
                image, made = (_Image.FLOAT if step.name == "ToTensor" else _Image.BYTES), step
                waiting = None
            elif step.name in _NEEDS_TENSOR:
                if made is not None and image is _Image.BYTES and step.name in _NEEDS_FLOAT:
                    yield self._bytes(made, step)
                if made is None and waiting is None:
                    waiting = step
                if step.name == "ConvertImageDtype":
                    image = _Image.UNKNOWN
            elif step.name in _REFUSES_FLOAT:
                if made is not None and image is _Image.FLOAT:
                    yield self._too_late(made, step)
            elif step.name not in _KEEPS:
                image, made, waiting = _Image.UNKNOWN, None, None

    def _too_early(self, early: _Step, maker: _Step) -> Diagnosis:
        message = (
            f"`{early.name}` takes a tensor and stands before `{maker.name}`, which takes an image: one of them raises."
        )
        related = [(maker.node, "makes the tensor")]
        return self.found(early.node, message, related=related, fixes=_move(maker, early))

    def _twice(self, first: _Step, second: _Step) -> Diagnosis:
        message = f"`{second.name}` raises: the image is already a tensor after `{first.name}`."
        title = f"Remove the second `{second.name}`"
        fix = FixPlan(title, "unsafe", lambda edit: _remove(edit, second.node))
        fixes = [fix] if _can_go(second.node) else []
        return self.found(second.node, message, related=[(first.node, "makes the tensor")], fixes=fixes)

    def _too_late(self, maker: _Step, late: _Step) -> Diagnosis:
        how = "raises" if late.name in _ALWAYS_REFUSES else "raises for most of what it draws"
        message = f"`{late.name}` takes images or bytes and {how}: `{maker.name}` has made a float tensor."
        related = [(maker.node, "makes a float tensor")]
        return self.found(late.node, message, related=related, fixes=_move(late, maker))

    def _bytes(self, maker: _Step, step: _Step) -> Diagnosis:
        message = f"`{step.name}` takes a float tensor and raises: `{maker.name}` gives bytes."
        return self.found(step.node, message, related=[(maker.node, "gives a uint8 tensor")])


def _steps(pipeline: ast.expr | None, semantics: Semantics) -> Iterator[_Step]:
    """The transforms of a list, those of a `Compose` inside it too."""
    for element in steps_of(semantics, pipeline):
        if element is not None:
            yield from _step(element, semantics)
        elif pipeline is not None:
            yield _Step("", pipeline)


def _step(element: ast.expr, semantics: Semantics) -> Iterator[_Step]:
    made = made_by(semantics, element)
    name = semantics.name(made.func) if isinstance(made, ast.Call) else ""
    if not name.startswith(_MODULE) or not isinstance(made, ast.Call):
        yield _Step("", element)
        return
    name = name[len(_MODULE) :]
    inner = list(_steps(argument(made, 0, "transforms"), semantics)) if name in _CHOICES | {"Compose"} else []
    if name == "Compose":
        yield from inner
    elif name in _CHOICES and inner and all(item.name in _KEEPS for item in inner):
        yield _Step(inner[0].name, element)
    else:
        yield _Step("" if name in _CHOICES else name, element)


def _is_part_of_pipeline(call: ast.Call, semantics: Semantics) -> bool:
    """Whether a `Compose` stands in the list of another one, with which it is looked at."""
    holder = parent_of(call)
    while isinstance(holder, ast.List | ast.Tuple | ast.BinOp):
        holder = parent_of(holder)
    return isinstance(holder, ast.Call) and semantics.is_named(holder.func, f"{_MODULE}Compose")


def _move(step: _Step, target: _Step) -> list[FixPlan]:
    """Move a transform of a list before another one of the same list."""
    holder = parent_of(step.node)
    if not isinstance(holder, ast.List) or parent_of(target.node) is not holder:
        return []
    first, last = holder.elts.index(target.node), holder.elts.index(step.node)
    elements = holder.elts[first : last + 1]

    def apply(edit: Editor) -> None:
        sources = [edit.source(element) for element in elements]
        for element, source in zip(elements, [sources[-1], *sources[:-1]], strict=True):
            edit.replace(element, source)

    return [FixPlan(f"Move `{step.name}` before `{target.name}`", "unsafe", apply)]


def _can_go(node: ast.expr) -> bool:
    holder = parent_of(node)
    return isinstance(holder, ast.List) and holder.elts.index(node) > 0


def _remove(edit: Editor, node: ast.expr) -> None:
    holder = parent_of(node)
    assert isinstance(holder, ast.List)
    start = edit.span(holder)[0]
    before = edit.span(holder.elts[holder.elts.index(node) - 1])[1] - start
    text = edit.source(holder)
    edit.replace(holder, text[:before] + text[edit.span(node)[1] - start :])
