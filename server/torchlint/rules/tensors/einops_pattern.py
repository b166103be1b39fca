from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.idioms.surroundings.expected_errors import is_expected_to_raise
from torchlint.idioms.values.einops_patterns import (
    fault_in_einsum,
    fault_in_packing,
    fault_in_shape,
    fault_in_transform,
)
from torchlint.idioms.values.tensor_sizes import sizes_of
from torchlint.rules.base import Diagnosis, Level, Rule, on_call
from torchlint.semantics.nodes import argument
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit

_TRANSFORMS = {
    "einops.rearrange": "rearrange",
    "einops.reduce": "reduce",
    "einops.repeat": "repeat",
    "einops.layers.torch.Rearrange": "rearrange",
    "einops.layers.torch.Reduce": "reduce",
}
_OTHERS = ("einops.parse_shape", "einops.einsum", "einops.pack", "einops.unpack")
_PARAMETERS = ("tensor", "pattern", "reduction")


class EinopsPattern(Rule):
    """## What it does

    Reports patterns of einops that cannot work: brackets that do not match, an axis that one side misses, a new axis
    without a size, a size for an axis that is not there, another number of axes than the tensor has.

    ## Why is this bad?

    A pattern is read when the line runs, and raises then, which may be late in a run and only on one path.

    ## Example

    ```python
    import torch
    from einops import rearrange

    images = torch.zeros(8, 3, 32, 32)
    patches = rearrange(images, "b c (h p) (w q) -> b (h w) (p q c)", p=4)
    ```

    ## Use instead

    ```python
    import torch
    from einops import rearrange

    images = torch.zeros(8, 3, 32, 32)
    patches = rearrange(images, "b c (h p) (w q) -> b (h w) (p q c)", p=4, q=4)
    ```

    ## Exceptions

    Patterns that are put together while the program runs. Where sizes are unpacked (`**sizes`), only the pattern itself
    is looked at. The grammar is that of einops 0.8.

    ## References

    - [einops.rearrange](https://einops.rocks/api/rearrange/)
    """

    code = "TL416"
    name = "einops-pattern"
    level = Level.ERROR
    summary = "The pattern cannot work: einops raises when it reads it."

    @on_call(*_TRANSFORMS, *_OTHERS)
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        name = semantics.name(call.func)
        if any(isinstance(item, ast.Starred) for item in call.args) and name != "einops.einsum":
            return
        written = _pattern(call, name)
        pattern = semantics.literal(written)
        if written is None or not isinstance(pattern, str) or is_expected_to_raise(call):
            return
        fault = _fault(semantics, call, name, pattern)
        if fault is not None:
            shown = f"`{pattern.strip()}`" if len(pattern) <= 80 and "\n" not in pattern else ""
            yield self.found(written, f"The pattern {shown} cannot work: {fault}.".replace("  ", " "))


def _pattern(call: ast.Call, name: str) -> ast.expr | None:
    if name == "einops.einsum":
        return call.args[-1] if call.args else None
    position = {"einops.layers.torch.Rearrange": 0, "einops.layers.torch.Reduce": 0, "einops.unpack": 2}.get(name, 1)
    return argument(call, position, "pattern")


def _fault(semantics: Semantics, call: ast.Call, name: str, pattern: str) -> str | None:
    if name in ("einops.pack", "einops.unpack"):
        return fault_in_packing(pattern)
    if name == "einops.einsum":
        unpacked = any(isinstance(item, ast.Starred) for item in call.args)
        return fault_in_einsum(pattern, None if unpacked else len(call.args) - 1)
    is_layer = name.startswith("einops.layers.")
    sizes = None if is_layer else sizes_of(semantics, argument(call, 0, "tensor"))
    rank = None if sizes is None else len(sizes)
    if name == "einops.parse_shape":
        return fault_in_shape(pattern, rank)
    given = [item.arg for item in call.keywords]
    sized = None if None in given else [item for item in given if item is not None and item not in _PARAMETERS]
    return fault_in_transform(_TRANSFORMS[name], pattern, sized, rank)
