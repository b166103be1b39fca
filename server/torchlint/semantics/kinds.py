"""What a value is to PyTorch, with the evidence for it."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import replace
from enum import Enum, IntEnum

from torchlint.frozen import dataclass


class What(Enum):
    """The sorts of values that rules tell apart."""

    TENSOR = "tensor"
    PARAMETER = "parameter"
    MODULE = "module"
    LOSS = "loss"
    OPTIMIZER = "optimizer"
    SCHEDULER = "scheduler"
    SCALER = "scaler"
    LOADER = "loader"
    DATASET = "dataset"
    SAMPLER = "sampler"
    PARAMETERS = "iterator of parameters"
    DEVICE = "device"
    DTYPE = "dtype"
    GENERATOR = "generator"
    ARRAY = "array"
    NUMBER = "number"
    TEXT = "text"
    TUPLE = "tuple"
    LIST = "list"
    MAPPING = "mapping"
    NONE = "none"
    OTHER = "other"


class Grade(IntEnum):
    """How good the evidence for a kind is. A safe fix needs PROVEN."""

    LIKELY = 1
    PROVEN = 2


@dataclass(frozen=True, slots=True)
class Kind:
    """``origin`` is the canonical name of the class or function that made the value (``torch.optim.Adam``, ``.Net``);
    ``node`` the expression that made it; ``class_node`` the class of this file that it is an instance of."""

    what: What
    grade: Grade
    evidence: str
    origin: str = ""
    node: ast.AST | None = None
    class_node: ast.ClassDef | None = None

    @property
    def proven(self) -> bool:
        return self.grade is Grade.PROVEN

    @property
    def is_tensor(self) -> bool:
        return self.what in (What.TENSOR, What.PARAMETER)

    @property
    def is_module(self) -> bool:
        return self.what in (What.MODULE, What.LOSS)

    def likely(self) -> Kind:
        return self if self.grade is Grade.LIKELY else replace(self, grade=Grade.LIKELY)


def merged(kinds: Iterable[Kind | None]) -> Kind | None:
    """The kind of a value that is one of several: None unless all agree. ``None`` beside others is passed over."""
    result: Kind | None = None
    none: Kind | None = None
    for kind in kinds:
        if kind is None:
            return None
        if kind.what is What.NONE:
            none = kind
            continue
        if result is None:
            result = kind
            continue
        if result.what is not kind.what and {result.what, kind.what} != {What.TENSOR, What.PARAMETER}:
            return None
        same = result.origin == kind.origin and result.class_node is kind.class_node
        weaker = min(result.grade, kind.grade)
        what = result.what if result.what is kind.what else What.TENSOR
        result = replace(
            result,
            what=what,
            grade=weaker,
            origin=result.origin if same else "",
            class_node=result.class_node if same else None,
            node=result.node if same and result.node is kind.node else None,
        )
    return result if result is not None else none
