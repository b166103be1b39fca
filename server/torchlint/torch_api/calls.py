"""Parameters and results of torch's public functions and classes, and of the methods of torch.Tensor, in torch 2.13.

Results were found by calling with typical arguments, parameters from signatures, docstrings and operator schemas
(scripts/torch_index/calls.py and signatures.py).
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache, lru_cache
from typing import Literal, cast

from torchlint.frozen import dataclass

from .names import canonical
from .tables import table

ResultKind = Literal["tensor", "tensors", "number", "other", "self"]


@dataclass(frozen=True)
class Signature:
    """Parameters of a callable in order, without `self`.

    `variadic` and `keywords` are the names of `*args` and `**kwargs` parameters; None where there are none. In
    `torch.zeros(*size, dtype=None)` nothing is positional by name: `variadic` is "size".
    """

    positional: tuple[str, ...]
    keyword_only: tuple[str, ...] = ()
    variadic: str | None = None
    keywords: str | None = None

    @staticmethod
    def parse(written: str) -> Signature:
        """From names separated by spaces, e.g. "input dim * dtype"."""
        positional: list[str] = []
        keyword_only: list[str] = []
        variadic = keywords = None
        current = positional
        for name in written.split():
            if name.startswith("**"):
                keywords = name[2:]
            elif name.startswith("*"):
                variadic = variadic or name[1:] or None
                current = keyword_only
            else:
                current.append(name)
        return Signature(tuple(positional), tuple(keyword_only), variadic, keywords)


@dataclass(frozen=True)
class TensorMethod:
    """One method of torch.Tensor.

    `returns`: "tensor", "tensors" (a tuple, named or not, or list of them), "number" (int, float, bool), "self" (the
    tensor itself, changed in place), "other". It is what the plainest call returns; arguments for the parameters in
    `varies_with` change it (`x.max()` is a tensor, `x.max(dim=1)` a named tuple).
    `discarding_is_mistake`: the method does nothing but make its result.
    `also_on`: other types that have an attribute of this name, so that the name alone proves nothing: "module",
    "storage", "packed-sequence", "optimizer", "distribution", "ndarray", "dict", "list", "str", ...
    """

    name: str
    returns: ResultKind
    discarding_is_mistake: bool
    signature: Signature | None
    varies_with: tuple[str, ...] = ()
    also_on: tuple[str, ...] = ()


_NOTHING_KNOWN = (None, "", "", "", "")


@cache
def tensor_method(name: str) -> TensorMethod | None:
    """The method of torch.Tensor with this bare name, e.g. "detach"; None when there is none."""
    entry = table("methods").get(name)
    if entry is None:
        return None
    returns, discarding_is_mistake, written, varies_with, also_on = entry
    signature = None if written is None else Signature.parse(written)
    varying = tuple(each.partition(":")[0] for each in varies_with.split())
    return TensorMethod(name, returns, discarding_is_mistake, signature, varying, tuple(also_on.split()))


@lru_cache(maxsize=4096)
def signature_of(name: str) -> Signature | None:
    """The parameters of a public callable of torch (`torch.Tensor.sum` too); None where they are not known."""
    name = canonical(name)
    if name.startswith("torch.Tensor."):
        method = tensor_method(name[len("torch.Tensor.") :])
        return method.signature if method else None
    entry = table("calls").get(name)
    return None if entry is None or entry[1] is None else Signature.parse(entry[1])


def parameters_of(name: str) -> tuple[str, ...] | None:
    """The names of the parameters that can be given by position, in order; None where they are not known."""
    signature = signature_of(name)
    return None if signature is None else signature.positional


def keyword_only_parameters_of(name: str) -> tuple[str, ...] | None:
    """The names of the parameters that must be given by name; None where they are not known."""
    signature = signature_of(name)
    return None if signature is None else signature.keyword_only


def positional_index(name: str, parameter: str) -> int | None:
    """The position, from 0, of a parameter of the callable; None when it is keyword-only or not known."""
    parameters = parameters_of(name)
    return parameters.index(parameter) if parameters and parameter in parameters else None


def result_of(name: str, given: Collection[str] = ()) -> ResultKind | None:
    """What a call returns, when parameters of the names in `given` are passed; None where that is not known.

    `given` matters for few functions: `torch.median(x)` returns a tensor, `torch.median(x, dim=1)` a named tuple, and
    `torch.max(x, y)` may be either, by what `y` is.
    """
    name = canonical(name)
    kind: ResultKind | None
    if name.startswith("torch.Tensor."):
        kind, _, _, varying, _ = table("methods").get(name[len("torch.Tensor.") :], _NOTHING_KNOWN)
    else:
        kind, _, varying = table("calls").get(name, _NOTHING_KNOWN[:3])
    for each in varying.split():
        parameter, _, other_kind = each.partition(":")
        if parameter in given:
            return cast("ResultKind", other_kind) or None
    return kind


def returns_tensor(name: str, given: Collection[str] = ()) -> bool:
    """Whether a call of this function or method is known to return one tensor; see `result_of` for `given`."""
    return result_of(name, given) in ("tensor", "self")
