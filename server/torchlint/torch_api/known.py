"""Small closed sets of names that need no table."""

from __future__ import annotations

from functools import cache

from .calls import signature_of
from .modules import module_facts
from .names import aliases

# torch.dtype objects of torch 2.13: [n for n, v in vars(torch).items() if isinstance(v, torch.dtype)].
_DTYPES = frozenset(
    f"torch.{name}"
    for name in (
        "bfloat16 bit bool cdouble cfloat chalf complex128 complex32 complex64 double float float16 float32 float64 "
        "float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu half int int16 int32 int64 int8 long "
        "qint32 qint8 quint8 short uint16 uint32 uint64 uint8"
    ).split()
)


def is_dtype(name: str) -> bool:
    """Whether a dotted name is a ``torch.dtype``."""
    return name in _DTYPES


# torch 2.13: the tensor types of torch and torch.cuda that can be called, and the dtype of what they make.
_LEGACY_CONSTRUCTORS = {
    "Tensor": "float32",
    "FloatTensor": "float32",
    "DoubleTensor": "float64",
    "HalfTensor": "float16",
    "BFloat16Tensor": "bfloat16",
    "LongTensor": "int64",
    "IntTensor": "int32",
    "ShortTensor": "int16",
    "CharTensor": "int8",
    "ByteTensor": "uint8",
    "BoolTensor": "bool",
}
LEGACY_CONSTRUCTORS = (
    *(f"torch.{name}" for name in _LEGACY_CONSTRUCTORS),
    *(f"torch.cuda.{name}" for name in _LEGACY_CONSTRUCTORS if name != "Tensor"),
)


def legacy_constructor_dtype(name: str) -> str | None:
    """The dtype that calling a tensor type makes: ``torch.int64`` for ``torch.cuda.LongTensor``; else None."""
    head, _, tail = name.rpartition(".")
    dtype = _LEGACY_CONSTRUCTORS.get(tail) if head in ("torch", "torch.cuda") else None
    return None if dtype is None else f"torch.{dtype}"


@cache
def is_known_name(name: str) -> bool:
    """Whether the data files know a public name (used to tell where a star import takes a name from)."""
    return signature_of(name) is not None or module_facts(name) is not None or bool(aliases(name))
