"""calls.json: parameters and results of public functions and classes; methods.json: of torch.Tensor's methods."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable
from typing import Any

import numpy
import torch

from . import trials
from .signatures import Parameter, documented, listed, methods, parameters_of, schemas, tensor_methods, undispatched

# Prefixes of functions worth calling: those of other modules act on the process, on devices, or on modules.
COMPUTING = ("torch.nn.functional.", "torch.linalg.", "torch.fft.", "torch.special.", "torch.signal.windows.")


# One tensor for one argument, a tuple for several.
UNKNOWN = {"torch.atleast_1d", "torch.atleast_2d", "torch.atleast_3d"}


def returns(dotted: str, value: Any, parameters: list[Parameter] | None) -> str | None:
    """ "tensor", "tensors", "number", "other", or None where neither a call nor the documentation tells."""
    if dotted in UNKNOWN:
        return None
    name = dotted.rpartition(".")[2]
    if isinstance(value, type):
        return "other"
    said = [trials.documented_kind(each.result) for each in documented(name, value.__doc__)]
    with contextlib.suppress(ValueError, TypeError):
        annotation = inspect.signature(undispatched(value)).return_annotation
        if annotation is not inspect.Signature.empty:
            said.append(trials.documented_kind(inspect.formatannotation(annotation)))
    computing = dotted.startswith(COMPUTING) or dotted.count(".") == 1
    if computing and parameters is not None and not trials.NOT_CALLED.match(name):
        kinds = {trials.kind_of(result) for _, result in trials.results(value, parameters)}
        if len(kinds) == 1:
            return kinds.pop()
        if kinds:
            print(f"{dotted} returns {sorted(kinds)}; documented {said}")
    return next((kind for kind in [*said, *schema_kinds(dotted)] if kind), None)


def schema_kinds(dotted: str) -> list[str]:
    """Each kind of result that the operator's overloads have, the plainest first; none for what is no operator."""
    found = []
    for schema in schemas(dotted):
        types = [str(result.type) for result in schema.returns]
        if len(types) > 1 or types == ["List[Tensor]"]:
            found.append("tensors")
        elif types == ["Tensor"]:
            found.append("tensor")
        else:
            found.append("number" if types and types[0] in ("bool", "int", "float", "number") else "other")
    return list(dict.fromkeys(sorted(found, key=["tensor", "tensors", "number", "other"].index)))


# Parameters that change the kind of the result when they are given: `torch.max(x)` is a tensor, `torch.max(x, dim=1)`
# a named tuple. Those of C++ are found from the schemas too, and the indexer says where this table does not have them.
# What it then is stands after a colon where it is always the same (the second argument of `torch.max` may be a tensor).
VARYING = {
    "max": "dim",
    "median": "dim:tensors",
    "min": "dim",
    "nanmedian": "dim:tensors",
    "size": "dim:number",
    "stride": "dim:number",
    "type": "dtype:tensor",
    "unique": "return_inverse return_counts",
    "unique_consecutive": "return_inverse return_counts",
}

# Called with the parameter of VARYING above, or without it where that is another thing.
PLAIN = {"torch.Tensor.stride": "other", "torch.Tensor.type": "other"}


def varying(dotted: str, kind: str | None) -> list[str]:
    name = dotted.rpartition(".")[2]
    if dotted.startswith("torch.nn.functional.") and "_pool" in name:
        return ["return_indices"] if "max_pool" in name and not name.endswith("_with_indices") else []
    if dotted in (f"torch.{name}", f"torch.Tensor.{name}") and name in VARYING:
        return VARYING[name].split()
    if kind in ("tensor", "tensors") and len(kinds := schema_kinds(dotted)) > 1:
        print(f"{dotted} is said to return {kind}, its schemas say {kinds}")
    return []


def written(parameters: list[Parameter] | None) -> str | None:
    return None if parameters is None else " ".join(p.name for p in parameters)


def build() -> dict[str, list[Any]]:
    """Dotted name -> [kind of result or null, parameters or null, parameters that change the kind of result]."""
    table: dict[str, list[Any]] = {}
    for dotted, value in [*listed(), *methods()]:
        parameters = parameters_of(dotted, value)
        kind = returns(dotted, value, parameters)
        if parameters is None and kind in (None, "other"):
            continue  # nothing is known of it, e.g. enumerations of the compiler
        table[dotted] = [kind, written(parameters), " ".join(varying(dotted, kind))]
    return table


def has_changed(before: torch.Tensor, after: torch.Tensor) -> bool:
    if before.shape != after.shape or before.dtype != after.dtype:
        return True
    if before.is_sparse:
        before, after = before.to_dense(), after.to_dense()
    return not torch.equal(before, after)


def method_outcomes(name: str, parameters: list[Parameter]) -> set[str]:
    """What calls of the method returned; "self" when it changed the tensor that it was called on and returned it."""
    outcomes: set[str] = set()

    def run(tensor: torch.Tensor, call: Callable[[torch.Tensor], Any]) -> None:
        before = tensor.clone()
        with contextlib.suppress(Exception):
            result = call(tensor)
            if has_changed(before, tensor):
                outcomes.add("self" if result is tensor else "changed")
            else:
                outcomes.add("self" if name.endswith("_") and result is tensor else trials.kind_of(result))

    if name.strip("_") in trials.ARGUMENTS:
        tensor, *others = trials.ARGUMENTS[name.strip("_")]
        if isinstance(tensor, torch.Tensor):
            with trials.quiet():
                keywords = trials.KEYWORDS.get(name.strip("_"), {})
                run(tensor.clone(), lambda tensor: getattr(tensor, name)(*others, **keywords))
    for values in trials.settings():
        run(values["self"].clone(), lambda tensor: trials.attempt(getattr(tensor, name), parameters, values))  # noqa: B023
    return outcomes


def build_methods() -> dict[str, list[Any]]:
    """Method -> [kind of result, whether discarding it is a mistake, parameters, varying parameters, other types]."""
    table: dict[str, list[Any]] = {}
    for name, value in tensor_methods():
        parameters = parameters_of(f"torch.Tensor.{name}", value)
        outcomes = (
            method_outcomes(name, parameters) if parameters is not None and not trials.NOT_CALLED.match(name) else set()
        )
        said = [trials.documented_kind(each.result) for each in documented(name, value.__doc__)]
        if f"torch.Tensor.{name}" in PLAIN:
            kind = PLAIN[f"torch.Tensor.{name}"]
        elif name.endswith("_"):
            kind = "self"
        elif outcomes - {"self", "changed"}:
            ordered = [k for k in ("tensor", "tensors", "number", "other") if k in outcomes]
            kind = ordered[0]
        else:
            kind = next((each for each in [*said, *schema_kinds(f"torch.Tensor.{name}")] if each), "other")
        if len(outcomes) > 1 or "changed" in outcomes:
            print(f"Tensor.{name}: {sorted(outcomes)}, documented {said}")
        pure = kind in ("tensor", "tensors") and not outcomes & {"self", "changed"}
        varies = " ".join(varying(f"torch.Tensor.{name}", kind))
        table[name] = [kind, pure, written(parameters), varies, " ".join(other_types(name))]
    return table


def other_types(name: str) -> list[str]:
    """Which other types that code near PyTorch handles have an attribute of this name."""
    from torch.nn.utils.rnn import PackedSequence

    types: dict[str, type] = {
        "module": torch.nn.Module,
        "storage": torch.UntypedStorage,
        "packed-sequence": PackedSequence,
        "optimizer": torch.optim.Optimizer,
        "distribution": torch.distributions.Distribution,
        "generator": torch.Generator,
        "size": torch.Size,
        "dict": dict,
        "list": list,
        "set": set,
        "str": str,
        "bytes": bytes,
        "int": int,
        "float": float,
        "ndarray": numpy.ndarray,
    }
    return [label for label, cls in types.items() if hasattr(cls, name)]
