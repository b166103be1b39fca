from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping

from torchlint import torch_api
from torchlint.idioms.modules.module_state import given_arguments
from torchlint.idioms.surroundings.expected_errors import is_expected_to_raise
from torchlint.rules.base import Diagnosis, Level, Rule, on_call
from torchlint.semantics.unit import Unit

Given = Mapping[str, object]


class InvalidLayerArguments(Rule):
    """## What it does

    Reports layers of `torch.nn` with literal arguments that their constructor rejects: channels that the groups do not
    divide, an embedding that the heads do not divide, a `padding_idx` out of range, a probability above 1,
    `padding="same"` with a stride.

    ## Why is this bad?

    The constructor raises. Where it stands in a branch or a configuration that is rarely used, it does so late.

    ## Example

    ```python
    import torch.nn as nn

    attention = nn.MultiheadAttention(embed_dim=100, num_heads=8)
    ```

    ## Use instead

    ```python
    import torch.nn as nn

    attention = nn.MultiheadAttention(embed_dim=96, num_heads=8)
    ```

    ## Exceptions

    Arguments that are no literals, and calls that unpack arguments. Tests that expect the error (`pytest.raises`,
    `assertRaises`).

    ## References

    - [torch.nn](https://docs.pytorch.org/docs/stable/nn.html)
    """

    code = "TL119"
    name = "invalid-layer-arguments"
    level = Level.ERROR
    summary = "The constructor of the layer rejects these arguments: it raises."

    @on_call(*torch_api.module_names())
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        if not (call.args or call.keywords):
            return
        facts = torch_api.module_facts(unit.semantics.name(call.func))
        checks = _CHECKS.get(facts.name.removeprefix("torch.nn.")) if facts is not None else None
        if facts is None or checks is None:
            return
        given = given_arguments(call, facts.parameters, unit.semantics)
        if given is None or is_expected_to_raise(call):
            return
        for check in checks:
            wrong = check(given)
            if wrong is not None:
                yield self.found(call, f"`{ast.unparse(call.func)}` raises: {wrong}.")
                return


# Each check says what is wrong with the literal arguments, or None. All measured on torch 2.13 by running the
# constructors; the texts follow torch's own.


def _number(given: Given, name: str, default: object = None) -> int | None:
    value = given.get(name, default)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _divides(count: str, *sizes: str, default: int | None = None) -> Callable[[Given], str | None]:
    def check(given: Given) -> str | None:
        parts = _number(given, count, default)
        if parts is None:
            return None
        if parts <= 0:
            return f"`{count}` has to be positive and is {parts}"
        for name in sizes:
            size = _number(given, name)
            if size is not None and size % parts:
                return f"`{name}={size}` cannot be divided by `{count}={parts}`"
        return None

    return check


def _probability(name: str) -> Callable[[Given], str | None]:
    def check(given: Given) -> str | None:
        value = given.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and not 0 <= value <= 1:
            return f"`{name}={value}` is no probability between 0 and 1"
        return None

    return check


def _one_of(name: str, *allowed: str) -> Callable[[Given], str | None]:
    def check(given: Given) -> str | None:
        value = given.get(name)
        if isinstance(value, str) and value not in allowed:
            return f'`{name}="{value}"` is none of {", ".join(allowed)}'
        return None

    return check


def _positive(*names: str) -> Callable[[Given], str | None]:
    def check(given: Given) -> str | None:
        for name in names:
            value = _number(given, name)
            if value is not None and value <= 0:
                return f"`{name}` has to be positive and is {value}"
        return None

    return check


def _same_with_stride(given: Given) -> str | None:
    stride = given.get("stride", 1)
    steps = stride if isinstance(stride, tuple | list) else (stride,)
    if given.get("padding") == "same" and any(isinstance(step, int) and step != 1 for step in steps):
        return '`padding="same"` needs a stride of 1'
    return None


def _padding_index(given: Given) -> str | None:
    size, index = _number(given, "num_embeddings"), _number(given, "padding_idx")
    if size is None or index is None or -size <= index < size:
        return None
    return f"`padding_idx={index}` is no row of {size} embeddings"


def _projection(given: Given) -> str | None:
    hidden, projected = _number(given, "hidden_size"), _number(given, "proj_size")
    if hidden is None or projected is None or projected < hidden:
        return None
    return f"`proj_size={projected}` has to be smaller than `hidden_size={hidden}`"


def _no_projection(given: Given) -> str | None:
    return "only `nn.LSTM` takes `proj_size`" if _number(given, "proj_size") else None


_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")
_CONVOLUTION = (
    _divides("groups", "in_channels", "out_channels", default=1),
    _same_with_stride,
    _one_of("padding", "same", "valid"),
    _one_of("padding_mode", *_PADDING_MODES),
)
_RECURRENT = (_probability("dropout"), _positive("hidden_size", "num_layers"))
_ATTENTION = _divides("nhead", "d_model")
_CHECKS: dict[str, tuple[Callable[[Given], str | None], ...]] = {
    **{f"Conv{d}d": _CONVOLUTION for d in (1, 2, 3)},
    **{f"ConvTranspose{d}d": (_CONVOLUTION[0],) for d in (1, 2, 3)},
    "GroupNorm": (_divides("num_groups", "num_channels"),),
    "MultiheadAttention": (_divides("num_heads", "embed_dim"),),
    "TransformerEncoderLayer": (_ATTENTION, _one_of("activation", "relu", "gelu")),
    "TransformerDecoderLayer": (_ATTENTION, _one_of("activation", "relu", "gelu")),
    "Transformer": (_divides("nhead", "d_model", default=8),),
    "Embedding": (_padding_index,),
    "EmbeddingBag": (_padding_index,),
    **{name: (_probability("p"),) for name in ("Dropout", "Dropout1d", "Dropout2d", "Dropout3d")},
    **{name: (_probability("p"),) for name in ("AlphaDropout", "FeatureAlphaDropout")},
    "RNN": (*_RECURRENT, _one_of("nonlinearity", "tanh", "relu"), _no_projection),
    "LSTM": (*_RECURRENT, _projection),
    "GRU": (*_RECURRENT, _no_projection),
}
