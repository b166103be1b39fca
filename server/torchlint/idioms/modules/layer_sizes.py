"""How large the input and the output of a layer are, where its constructor says so in numbers that the code shows."""

from __future__ import annotations

import ast
from functools import cache

from torchlint import torch_api
from torchlint.frozen import dataclass
from torchlint.idioms.modules.module_state import given_arguments
from torchlint.idioms.values.whole_numbers import whole_number
from torchlint.semantics.kinds import Kind
from torchlint.semantics.semantics import Semantics

#: Their first size counts rows of a table, not elements of the input.
_TABLES = frozenset(("torch.nn.Embedding", "torch.nn.EmbeddingBag"))


def may_tell_sizes(semantics: Semantics) -> bool:
    """Whether the file builds two sorts of layers that have sizes, or one with a size that its code shows: asked before
    the layers of classes are looked at."""
    return semantics.module.memo.summary(("may tell sizes",), _may_tell_sizes, False)


def _may_tell_sizes(semantics: Semantics) -> bool:
    built = semantics.module.names_called(sized_layers())
    calls = (call for name in built for call in semantics.module.calls_of(name))
    given = (value for call in calls for value in (*call.args[:2], *(item.value for item in call.keywords)))
    renamed = semantics.module.imports_renamed(sized_layers())
    return renamed or len(built) > 1 or any(whole_number(value, semantics) is not None for value in given)


@cache
def sized_layers() -> frozenset[str]:
    """The last names of the layers of torch whose constructor says how large their input or output is."""
    known = (torch_api.module_facts(name) for name in torch_api.module_names())
    sized = (facts.name for facts in known if facts is not None and (facts.in_size or facts.out_size))
    return frozenset(name.rpartition(".")[2] for name in sized) | {"PReLU"}


@dataclass(frozen=True, slots=True)
class LayerSizes:
    """How many features or channels a layer takes and gives; None where the code does not say.

    Features stand in the last dimension (``Linear``, ``LayerNorm``, ``Embedding``, recurrent layers), channels in the
    second (convolutions, ``BatchNorm``, ``GroupNorm``).
    """

    takes: int | None = None
    gives: int | None = None


def sizes_of_layer(kind: Kind | None, semantics: Semantics) -> LayerSizes:
    """The sizes of what an expression of this kind is, if it is a layer of torch (``semantics.kind(self.fc)``)."""
    if kind is None or not kind.proven or not kind.is_module or not isinstance(kind.node, ast.Call):
        return LayerSizes()
    return sizes_of_construction(kind.node, kind.origin, semantics)


def sizes_of_construction(build: ast.Call, name: str, semantics: Semantics) -> LayerSizes:
    """The sizes of the layer that a call of the class ``name`` makes (``nn.Linear(64, 10)`` takes 64 and gives 10)."""
    facts = torch_api.module_facts(name)
    if facts is None:
        return LayerSizes()
    takes = None if facts.name in _TABLES else _size(build, facts, facts.in_size, semantics)
    gives = _size(build, facts, facts.out_size, semantics)
    if facts.kind == "recurrent" and gives is not None:
        gives = _recurrent_size(build, facts, gives, semantics)
    return LayerSizes(takes, gives)


def size_of_state(build: ast.Call, name: str, semantics: Semantics) -> int | None:
    """How many features a hidden state has of the recurrent layer that a call of the class ``name`` makes."""
    facts = torch_api.module_facts(name)
    hidden = _size(build, facts, facts.out_size, semantics) if facts is not None else None
    return _recurrent_size(build, facts, hidden, semantics, 1) if facts is not None and hidden is not None else None


def _size(build: ast.Call, facts: torch_api.ModuleFacts, parameter: str | None, semantics: Semantics) -> int | None:
    value = layer_argument(build, facts, parameter) if parameter is not None else None
    if isinstance(value, ast.List | ast.Tuple) and value.elts:  # a `normalized_shape`: its last dimension
        value = value.elts[-1]
    return whole_number(value, semantics)


def _recurrent_size(
    build: ast.Call, facts: torch_api.ModuleFacts, hidden: int, semantics: Semantics, directions: int = 2
) -> int | None:
    """What a recurrent layer gives: the projection if it has one, of both directions where it has two."""
    given = given_arguments(build, facts.parameters, semantics)
    if given is None:
        return None
    projected, both = given.get("proj_size", 0), given.get("bidirectional", False)
    if not isinstance(projected, int) or not isinstance(both, bool):
        return None
    return (projected or hidden) * (directions if both else 1)


def layer_argument(build: ast.Call, facts: torch_api.ModuleFacts, parameter: str) -> ast.expr | None:
    """What a constructor is given for a parameter; None where it is not given, or not certainly."""
    if any(isinstance(item, ast.Starred) for item in build.args) or any(item.arg is None for item in build.keywords):
        return None
    for item in build.keywords:
        if item.arg == parameter:
            return item.value
    names = facts.parameters
    positional = names[: names.index("*")] if "*" in names else names
    position = positional.index(parameter) if parameter in positional else len(build.args)
    return build.args[position] if position < len(build.args) else None
