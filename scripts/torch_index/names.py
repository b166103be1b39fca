"""names.json: under which names each public class and function of torch can be reached, found by object identity."""

from __future__ import annotations

import functools
import importlib
import pkgutil
import sys
import types
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import torch

# Internal machinery, or packages that need something that is not installed: nothing a user's training code names.
SKIPPED_PACKAGES = (
    "torch.ao",
    "torch.backends._coreml",
    "torch.contrib",
    "torch.cuda._gpu_trace",
    "torch.distributed._tools",
    "torch.distributed.benchmarks",
    "torch.distributed.elastic",
    "torch.distributed.flight_recorder",
    "torch.distributed.launch",
    "torch.distributed.launcher",
    "torch.distributed.pipelining",
    "torch.distributed.rpc",
    "torch.distributed.run",
    "torch.fx.experimental",
    "torch.fx.passes",
    "torch.headeronly",
    "torch.nn.intrinsic",
    "torch.nn.qat",
    "torch.nn.quantizable",
    "torch.nn.quantized",
    "torch.numa",
    "torch.onnx",
    "torch.package",
    "torch.quantization",
    "torch.testing",
    "torch.utils.benchmark",
    "torch.utils.bottleneck",
    "torch.utils.hipify",
    "torch.utils.model_dump",
    "torch.utils.tensorboard",
    "torch.utils.viz",
    "torch.utils.serialization",
    "torch.utils.data.datapipes",
    "torch.utils.data.backward_compatibility",
    "torch.xpu._gpu_trace",
    "torchvision.image",
    "torchvision.io.video",
)

# Where two names of one object are both documented, the one that torchlint calls canonical.
PREFERRED = {
    "torch.amp.autocast",  # also torch.autocast
    "torch.amp.GradScaler",  # also torch.GradScaler
    "torch.FloatStorage",  # also torch.Storage
}

# Public modules whose functions are written in C++, so that they do not say where they belong.
BUILT_IN = {"torch.fft", "torch.linalg", "torch.nn.functional", "torch.special"}

Indexed = (
    type,
    types.FunctionType,
    types.BuiltinFunctionType,
    functools._lru_cache_wrapper,  # `torch.backends.mps.is_available`
    torch.dtype,
    torch.layout,
    torch.memory_format,
)


def is_skipped(name: str) -> bool:
    return f"{name}.".startswith(tuple(f"{package}." for package in SKIPPED_PACKAGES))


def public_modules(root: types.ModuleType) -> Iterator[tuple[str, types.ModuleType]]:
    """Every importable module of a package without an underscore in its path, outside of SKIPPED_PACKAGES."""
    yield root.__name__, root
    pending = [(f"{root.__name__}.", root.__path__)]
    while pending:
        prefix, path = pending.pop(0)
        for found in pkgutil.iter_modules(path, prefix):
            name = found.name
            if is_skipped(name) or name.rpartition(".")[2].startswith("_"):
                continue
            try:
                module = importlib.import_module(name)
            except Exception as error:  # an optional dependency that is missing, or a platform that is not this one
                print(f"skipped {name}: {type(error).__name__}: {error}", file=sys.stderr)
                continue
            yield name, module
            if found.ispkg and hasattr(module, "__path__"):
                pending.append((name + ".", module.__path__))


@functools.cache  # importing more of torch while it runs replaces some functions, e.g. torch.manual_seed
def all_bindings(root: types.ModuleType = torch) -> dict[str, Any]:
    """Dotted name -> object, for each class, function, dtype and layout bound in a public module of the package."""
    bindings: dict[str, Any] = {}
    for module_name, module in public_modules(root):
        for name, value in vars(module).items():
            if isinstance(value, Indexed) and belongs_to(root, value):
                bindings[f"{module_name}.{name}"] = value
    if root is torch:
        bindings["torch._tensor.Tensor"] = torch.Tensor
    # Private modules that tracebacks and old code name: only what they define themselves.
    for module_name, module in list(sys.modules.items()):
        if module_name.startswith(f"{root.__name__}.") and "._" in module_name and not is_skipped(module_name):
            for name, value in list(vars(module).items()):
                if isinstance(value, (type, types.FunctionType)) and value.__module__ == module_name:
                    bindings[f"{module_name}.{name}"] = value
    return bindings


def belongs_to(root: types.ModuleType, value: Any) -> bool:
    """Whether the package defines the object."""
    if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
        return root is torch
    module = getattr(value, "__module__", None)
    # Built in functions of torch._C have no module; those of `math`, `operator` and their kind name theirs.
    return (module is None and root is torch) or f"{module}.".startswith(f"{root.__name__}.")


def is_exported(dotted: str, value: Any) -> bool:
    """Whether the module means this name for its users, and has not only imported it for its own use."""
    module_name, _, name = dotted.rpartition(".")
    if "._" in dotted:
        return False
    module = sys.modules[module_name]
    exported = getattr(module, "__all__", None)
    if exported is not None and name in exported:
        return True
    if module_name == "torch" or (module_name in BUILT_IN and isinstance(value, types.BuiltinFunctionType)):
        return True
    defined_in = getattr(value, "__module__", None) or module_name
    return defined_in == module_name or defined_in.startswith(module_name + ".") or is_published(dotted, value)


def is_published(dotted: str, value: Any) -> bool:
    """Whether a package shows what a private module defines, without saying so: `torch.jit.is_scripting`."""
    module = sys.modules[dotted.rpartition(".")[0]]
    elsewhere = "._" in (getattr(value, "__module__", None) or "")
    return (
        elsewhere
        and module is not torch
        and hasattr(module, "__path__")
        and dotted.rpartition(".")[2] not in getattr(module, "__all__", ())
    )


def choose(names: list[str], value: Any) -> str:
    """The canonical one of the names of one object."""

    def key(dotted: str) -> tuple[bool, bool, bool, bool, bool, int, int, str]:
        module, _, name = dotted.rpartition(".")
        functional_twin = module == "torch" and f"torch.nn.functional.{name}" in names and not isinstance(value, type)
        return (
            dotted not in PREFERRED,
            not is_exported(dotted, value),
            is_published(dotted, value),
            # `torch.conv2d is torch.nn.functional.conv2d`: only the second is documented.
            functional_twin,
            # dtypes: `torch.float32` before `torch.float`
            repr(value) != dotted,
            dotted.count("."),
            len(dotted),
            dotted,
        )

    return min(names, key=key)


@functools.cache
def build(root: types.ModuleType = torch) -> dict[str, dict[str, str]]:
    """Module -> name bound there -> canonical dotted name, for each binding that is not canonical itself."""
    bindings = all_bindings(root)
    groups: dict[int, list[str]] = defaultdict(list)
    for dotted, value in bindings.items():
        groups[id(value)].append(dotted)
    table: dict[str, dict[str, str]] = defaultdict(dict)
    for names in groups.values():
        value = bindings[names[0]]
        canonical = choose(names, value)
        if not is_exported(canonical, value):
            continue
        for dotted in names:
            module, _, name = dotted.rpartition(".")
            if dotted != canonical and worth_keeping(dotted, value):
                table[module][name] = canonical
    return {module: dict(sorted(entries.items())) for module, entries in sorted(table.items())}


def worth_keeping(dotted: str, value: Any) -> bool:
    """Leave out names that a module imported for its own use, e.g. `torch.nn.modules.linear.Tensor`."""
    module_name = dotted.rpartition(".")[0]
    return is_exported(dotted, value) or getattr(value, "__module__", None) == module_name or value is torch.Tensor
