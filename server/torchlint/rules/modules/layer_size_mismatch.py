from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.idioms.modules.layer_order import (
    Applied,
    Run,
    applications,
    applied,
    may_build,
    opened,
    run_of_call,
    run_of_class,
    value_before,
)
from torchlint.idioms.modules.layer_shapes import Misfit, Shape, after, indexed, part_of_tuple, reshaped
from torchlint.idioms.modules.layer_sizes import may_tell_sizes, sized_layers
from torchlint.idioms.surroundings.expected_errors import is_expected_to_raise
from torchlint.rules.base import Diagnosis, Level, Rule, on_call, on_module_class
from torchlint.semantics.classes import ClassView
from torchlint.semantics.nodes import enclosing_class
from torchlint.semantics.scopes import Binding
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit

_LONGEST_WAY = 80


class LayerSizeMismatch(Rule):
    """## What it does

    Reports layers that run one after the other with literal sizes that cannot fit: `nn.Linear(784, 256)` before
    `nn.Linear(128, 10)`, sixteen channels into a batch norm for thirty-two, `nn.BatchNorm1d` behind `nn.Conv2d`, the
    output of both directions of an LSTM into a layer for one, `x.view(-1, 320)` into `nn.Linear(256, 10)`.

    ## Why is this bad?

    The first batch raises.

    ## Example

    ```python
    import torch.nn as nn

    net = nn.Sequential(
        nn.Linear(784, 256),
        nn.ReLU(),
        nn.Linear(128, 10),
    )
    ```

    ## Use instead

    ```python
    import torch.nn as nn

    net = nn.Sequential(
        nn.Linear(784, 256),
        nn.ReLU(),
        nn.Linear(256, 10),
    )
    ```

    ## Exceptions

    Sizes that the code does not show, layers with something between them that changes the shape, and layers that take
    any size (`nn.InstanceNorm2d` without `affine`, lazy layers). A linear layer behind a convolution works on the last
    dimension, whose size is not known.

    ## References

    - [torch.nn](https://docs.pytorch.org/docs/stable/nn.html)
    """

    code = "TL116"
    name = "layer-size-mismatch"
    level = Level.ERROR
    summary = "The layer takes another size than the one before it gives: the first batch raises."

    @on_call("torch.nn.Sequential")
    def check_sequential(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        if not may_tell_sizes(unit.semantics) or is_expected_to_raise(call):
            return
        _, misfits = _through(run_of_call(call, unit.semantics), Shape(), unit.semantics)
        for misfit in misfits:
            if misfit.layer.holder is call or misfit.layer.holder is not misfit.source.holder:
                yield self._misfit(misfit)

    @on_module_class()
    def check_class(self, view: ClassView, unit: Unit) -> Iterator[Diagnosis]:
        semantics = view.semantics
        if not (may_tell_sizes(semantics) and may_build(view, sized_layers())):
            return
        _, misfits = _through(run_of_class(view), Shape(), semantics)
        found = [misfit for misfit in misfits if misfit.layer.holder is view.node]
        known: dict[ast.expr, Shape] = {}
        for layer in applications(view):
            assert layer.operand is not None
            run = opened(layer, semantics)
            _, misfits = _through(run, _shape_of(layer.operand, semantics, known, 0), semantics)
            found += [misfit for misfit in misfits if not any(misfit.source is member for member in run)]
        told: set[ast.AST] = set()
        for misfit in found:
            if _place(misfit.layer) not in told:
                told.add(_place(misfit.layer))
                yield self._misfit(misfit)

    def _misfit(self, misfit: Misfit) -> Diagnosis:
        layer, source = misfit.layer, misfit.source
        place = _place(layer)
        related = [(_place(source), "the size comes from here")]
        if place is not layer.node:
            related.append((layer.node, "called here"))
        return self.found(place, f"`{layer.written}` {misfit.wrong} from `{source.written}`.", related=related)


def _through(run: Run, shape: Shape, semantics: Semantics) -> tuple[Shape, list[Misfit]]:
    """What a run of layers makes of a shape, and the layers that do not fit."""
    misfits: list[Misfit] = []
    for layer in run:
        if layer is None:
            shape = Shape()
            continue
        result = after(shape, layer, semantics)
        if isinstance(result, Misfit):
            misfits.append(result)
            again = shape if "Norm" in layer.name else after(Shape(), layer, semantics)
            result = again if isinstance(again, Shape) else Shape()
        shape = result
    return shape, misfits


def _shape_of(expression: ast.expr, semantics: Semantics, known: dict[ast.expr, Shape], depth: int) -> Shape:
    """What is known of a value in a method: followed back through variables and the layers that made it."""
    if depth > _LONGEST_WAY:
        return Shape()
    if expression not in known:
        known[expression] = Shape()  # a value that depends on itself through a loop
        value = value_before(expression, semantics)
        layer = applied(value, semantics) if value is not None else None
        if layer is not None and layer.operand is not None:
            before = _shape_of(layer.operand, semantics, known, depth + 1)
            known[expression] = _through(opened(layer, semantics), before, semantics)[0]
        elif isinstance(value, ast.Name) and value is not expression:
            known[expression] = _shape_of(value, semantics, known, depth + 1)
        else:
            known[expression] = (
                _unpacked(expression, semantics)
                or (_part(value, semantics, known, depth) if isinstance(value, ast.Subscript) else None)
                or reshaped(value, semantics)
                or Shape()
            )
    return known[expression]


def _unpacked(expression: ast.expr, semantics: Semantics) -> Shape | None:
    """What is known of ``output`` and ``h`` in ``output, h = self.rnn(x)``."""
    definitions = semantics.definitions(expression) if isinstance(expression, ast.Name) else ()
    if len(definitions) != 1 or definitions[0].kind is not Binding.ASSIGNMENT or not definitions[0].path:
        return None
    value = definitions[0].value
    layer = applied(value, semantics) if value is not None else None
    return part_of_tuple(layer, definitions[0].path, semantics) if layer is not None else None


def _part(value: ast.Subscript, semantics: Semantics, known: dict[ast.expr, Shape], depth: int) -> Shape | None:
    """What is known of ``output[:, -1]``, and of ``self.rnn(x)[0]``."""
    layer = applied(value.value, semantics)
    index = semantics.literal(value.slice)
    found = part_of_tuple(layer, (index,), semantics) if layer is not None and isinstance(index, int) else None
    return found or indexed(_shape_of(value.value, semantics, known, depth + 1), value.slice)


def _place(layer: Applied) -> ast.expr:
    """Where a layer is mended: where its class builds it, else where it runs."""
    build = layer.build
    if build is not None and enclosing_class(build) is enclosing_class(layer.node):
        return build
    return layer.node
