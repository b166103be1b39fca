"""Parameters of torch's public callables: from signatures, or from docstrings and schemas for what is C++."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import itertools
import re
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from . import names
from .modules import RECURRENT_PARAMETERS

# Modules whose public functions and classes are listed with their parameters.
LISTED = """
torch torch.accelerator torch.amp torch.autograd torch.autograd.functional torch.backends.cudnn torch.backends.mps
torch.compiler torch.cpu torch.cpu.amp torch.mps torch.serialization torch.xpu
torch.cuda torch.cuda.amp torch.distributed torch.distributed.fsdp torch.distributions torch.export torch.fft torch.func
torch.jit torch.linalg torch.nested torch.nn torch.nn.attention torch.nn.functional torch.nn.init torch.nn.parallel
torch.nn.utils torch.nn.utils.parametrizations torch.nn.utils.parametrize torch.nn.utils.prune torch.nn.utils.rnn
torch.nn.utils.stateless torch.optim torch.optim.lr_scheduler torch.optim.swa_utils torch.profiler
torch.signal.windows torch.sparse torch.special torch.utils.checkpoint torch.utils.data torch.utils.dlpack
""".split()


class Parameter(NamedTuple):
    name: str  # "*" stands before keyword-only parameters; "*args" and "**kwargs" are variadic
    required: bool


class Documented(NamedTuple):
    parameters: list[Parameter]
    result: str | None  # what stands after "->"


def listed() -> Iterator[tuple[str, Any]]:
    """(dotted name, object) of each public callable; a name that is not canonical is left out."""
    aliases = {f"{module}.{name}" for module, entries in names.build().items() for name in entries}
    for module_name in LISTED:
        module = importlib.import_module(module_name)
        for name, value in sorted(vars(module).items()):
            dotted = f"{module_name}.{name}"
            if name.startswith("_") or not callable(value) or isinstance(value, types.ModuleType) or dotted in aliases:
                continue
            if isinstance(value, names.Indexed) and names.belongs_to(torch, value) and names.is_exported(dotted, value):
                yield dotted, value


# Classes whose methods user code calls with arguments that rules read.
METHODS_OF = """
torch.amp.GradScaler torch.distributions.Distribution torch.nn.Module torch.optim.LBFGS torch.optim.Optimizer
torch.optim.lr_scheduler.LRScheduler torch.optim.lr_scheduler.ReduceLROnPlateau torch.utils.data.DistributedSampler
""".split()


def methods() -> Iterator[tuple[str, Any]]:
    """(dotted name, function) of the public methods that the classes of METHODS_OF define themselves."""
    for dotted in METHODS_OF:
        module, _, name = dotted.rpartition(".")
        for method, value in sorted(vars(getattr(importlib.import_module(module), name)).items()):
            if not method.startswith("_") and isinstance(value, types.FunctionType):
                yield f"{dotted}.{method}", value


def tensor_methods() -> Iterator[tuple[str, Any]]:
    for name in dir(torch.Tensor):
        value = getattr(torch.Tensor, name, None)
        if not name.startswith("_") and callable(value):
            yield name, value


def documented(name: str, doc: str | None) -> list[Documented]:
    """Each `name(a, b, *, c=None) -> Tensor` that begins a line of the docstring, in order."""
    joined = re.sub(r",\s*\n\s+", ", ", doc if isinstance(doc, str) else "")
    pattern = rf"^(?:\.\. (?:function|method):: *)?(?:[\w.]+\.)?{re.escape(name)}\((.*?)\) *\\?(?:-> *(.+?)\.?)?$"
    found = []
    for text, result in re.findall(pattern, joined, re.MULTILINE):
        found.append(Documented(split_parameters(text), result.strip() or None))
    return found


def split_parameters(text: str) -> list[Parameter]:
    parts = [""]
    depth = 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    cleaned: list[Parameter] = []
    keyword_only = False
    for part in parts:
        # docstrings write "dim=0", "dim: int = 0", "int dim", "[dim]"
        name = re.split(r"[=:]", part, maxsplit=1)[0].strip().strip("[]").split(" ")[-1].replace("\\", "")
        if re.fullmatch(r"\*{0,2}\w+|\*", name):
            # a keyword without "=" in a docstring has a default all the same, e.g. those of `torch.asarray`
            cleaned.append(Parameter(name, not keyword_only and "=" not in part and not name.startswith("*")))
            keyword_only = keyword_only or name.startswith("*")
    return cleaned


def from_signature(signature: inspect.Signature) -> list[Parameter]:
    found: list[Parameter] = []
    for p in signature.parameters.values():
        if p.kind is p.VAR_POSITIONAL:
            found.append(Parameter(f"*{p.name}", False))
        elif p.kind is p.VAR_KEYWORD:
            found.append(Parameter(f"**{p.name}", False))
        else:
            if p.kind is p.KEYWORD_ONLY and not any(known.name.startswith("*") for known in found):
                found.append(Parameter("*", False))
            found.append(Parameter(p.name, p.default is p.empty))
    return found


# Where a name is the name of an operator.
OPERATORS = {"torch", "torch.Tensor", "torch.fft", "torch.linalg", "torch.nn.functional", "torch.special"}


def schemas(dotted: str) -> list[Any]:
    """The operator schemas of a function or method written in C++, without those that write to `out=`."""
    owner, _, name = dotted.rpartition(".")
    package = owner.rpartition(".")[2]
    if owner not in OPERATORS:
        return []
    operator = {"linalg": "linalg_", "special": "special_", "fft": "fft_"}.get(package, "") + name
    found = torch._C._jit_get_schemas_for_operator(f"aten::{operator}")
    found = [s for s in found if not s.overload_name.endswith("out") and not any(a.is_out for a in s.arguments)]
    # TorchScript adds overloads for numbers, strings and lists to many operators
    return [s for s in found if s.arguments and "Tensor" in str(s.arguments[0].type)] or found


def from_schema(dotted: str) -> list[Parameter] | None:
    """The parameters of the first schema; the tensor itself is `input` for a function and left out for a method."""
    candidates = schemas(dotted)
    if not candidates:
        return None
    found: list[Parameter] = []
    for argument in candidates[0].arguments:
        if argument.kwarg_only and Parameter("*", False) not in found:
            found.append(Parameter("*", False))
        found.append(Parameter(argument.name, not argument.has_default_value()))
    if found and found[0].name == "self":
        found[:1] = [] if dotted.startswith("torch.Tensor.") else [Parameter("input", True)]
    return found


# Where the first documented signature is not the one that is worth knowing.
STATED = {
    # the third of three: `normal(mean: float, std: float, size)` is the one that takes a device
    "torch.normal": "mean std size * generator out dtype layout device requires_grad pin_memory",
    "torch.hamming_window": "window_length periodic alpha beta * dtype layout device requires_grad",
}


def undispatched(value: Any) -> Any:
    """What `torch.nn.functional.max_pool2d` and its like call when their `return_...` arguments are False."""
    while isinstance(value, types.FunctionType) and value in torch._jit_internal.boolean_dispatched:
        value = torch._jit_internal.boolean_dispatched[value]["if_false"]
    return value


def parameters_of(dotted: str, value: Any) -> list[Parameter] | None:
    """None where neither the code nor the documentation tells."""
    name = dotted.rpartition(".")[2]
    if name in RECURRENT_PARAMETERS and isinstance(value, type):
        return [Parameter(each, each.endswith("_size")) for each in RECURRENT_PARAMETERS[name].split()]
    if dotted in STATED:
        return [Parameter(each, each in ("mean", "std", "window_length")) for each in STATED[dotted].split()]
    known: list[Parameter] | None = None
    with contextlib.suppress(ValueError, TypeError):
        known = from_signature(inspect.signature(value))
        if known and known[0].name == "self" and "." in value.__qualname__ and not isinstance(value, type):
            del known[0]
    if known is not None and [p.name for p in known] != ["*args", "**kwargs"]:
        return known
    plainest = undispatched(value)
    if plainest is not value:
        return from_signature(inspect.signature(plainest))
    signatures = [each.parameters for each in documented(name, value.__doc__)]
    if not signatures:
        return known or (None if isinstance(value, type) else from_schema(dotted))
    best = signatures[0]
    if any(p.name.strip("*") and p.name.startswith("*") for p in best):
        return best
    for other in signatures[1:]:  # one that only adds to the first, as the second of `torch.sum`
        known_names = positional(best)
        if len(positional(other)) > len(known_names) == len(common(other, best)):
            best = [p._replace(required=p.required and p.name in known_names) for p in other]
    return best


def positional(parameters: list[Parameter]) -> list[str]:
    return [p.name for p in itertools.takewhile(lambda p: not p.name.startswith("*"), parameters)]


def common(first: list[Parameter], second: list[Parameter]) -> list[str]:
    pairs = zip(positional(first), positional(second), strict=False)
    return [a for a, b in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)]
