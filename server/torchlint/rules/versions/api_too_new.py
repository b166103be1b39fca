from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchlint.idioms.surroundings.fallbacks import in_version_fallback
from torchlint.regex import regex
from torchlint.rules.base import Diagnosis, Level, Rule, on_node, on_reference
from torchlint.semantics.scopes import Binding
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of
from torchlint.torch_api import TorchRange, since, tails_with_release

#: The module that intel_extension_for_pytorch gave to releases of torch that have none.
_EXTENDED = "torch.xpu"
#: Functions of a project that ask for more than a device: `is_weights_only_available()`, `supports_fp8()`.
_ASKS = regex(r"^_?(is_\w+_(available|supported)|(has|have|supports?)_\w+)$", re.IGNORECASE)


class ApiTooNew(Rule):
    """## What it does

    Reports names that torch has only from a release on that is newer than the oldest one which the project allows (in
    its requirements, or as `torch-version` in the settings).

    ## Why is this bad?

    Whoever installs the project with an older torch that it allows gets an `AttributeError` or `ImportError`.

    ## Example

    With `torch>=2.2` in the requirements:

    ```python torch=">=2.2"
    from torch import nn

    norm = nn.RMSNorm(512)
    ```

    ## Use instead

    Require `torch>=2.4`, which has it, or provide for the releases before:

    ```python torch=">=2.2"
    from torch import nn

    norm = nn.RMSNorm(512) if hasattr(nn, "RMSNorm") else OwnNorm(512)
    ```

    ## Exceptions

    Projects whose oldest torch is not known; code under a test of the version or `hasattr`, under a function of the
    project that asks whether something is available (`is_xpu_available()`), or in `try`/`except`; `torch.xpu`, which
    an extension gave to older releases.

    ## References

    - [PyTorch release notes](https://github.com/pytorch/pytorch/releases)
    """

    code = "TL009"
    name = "api-too-new"
    level = Level.WARNING
    needs_torch_range = True
    summary = "A release of torch that the project allows does not have this name."

    @on_reference(*tails_with_release())
    def check_reference(self, node: ast.expr, unit: Unit) -> Iterator[Diagnosis]:
        if unit.torch is None or unit.torch.lower is None or isinstance(node, ast.Name):
            return  # a plain name: its import is reported
        name = unit.semantics.written_name(node)
        if not name or not _is_too_new(name, unit.torch) or _is_too_new(name.rpartition(".")[0], unit.torch):
            return  # what lies in a module that is too new is reported with the module
        if not _is_provided_for(node, unit):
            yield self._diagnosis(node, name, unit.torch)

    @on_node(ast.ImportFrom)
    def check_import(self, statement: ast.ImportFrom, unit: Unit) -> Iterator[Diagnosis]:
        if unit.torch is None or unit.torch.lower is None or statement.level:
            return
        for alias in statement.names:
            name = f"{statement.module}.{alias.name}"
            if not _is_too_new(name, unit.torch):
                name = _module_too_new(statement.module or "", unit.torch)
            if not name or _is_under_availability(statement):
                continue
            if not in_version_fallback(unit.semantics, statement):
                yield self._diagnosis(alias, name, unit.torch)

    @on_node(ast.Import)
    def check_module(self, statement: ast.Import, unit: Unit) -> Iterator[Diagnosis]:
        if unit.torch is None or unit.torch.lower is None:
            return
        for alias in statement.names:
            # Without `as` it is reported where it is used, by its whole name.
            name = _module_too_new(alias.name, unit.torch) if alias.asname else ""
            if not name or _is_under_availability(statement):
                continue
            if not in_version_fallback(unit.semantics, statement):
                yield self._diagnosis(alias, name, unit.torch)

    def _diagnosis(self, node: ast.AST, name: str, allowed: TorchRange) -> Diagnosis:
        return self.found(node, f"`{name}` came with torch {since(name)}, and this project allows {allowed.lower}.")


def _is_too_new(name: str, allowed: TorchRange) -> bool:
    if name == _EXTENDED or name.startswith(f"{_EXTENDED}."):
        return False
    release = since(name) if name.startswith("torch.") else ""
    return bool(release) and allowed.may_be_below(release)


def _module_too_new(module: str, allowed: TorchRange) -> str:
    """The outermost module of a dotted name that is too new; an empty text if none is."""
    parts = module.split(".")
    names = (".".join(parts[:length]) for length in range(2, len(parts) + 1)) if parts[0] == "torch" else ()
    return next((name for name in names if _is_too_new(name, allowed)), "")


def _is_provided_for(node: ast.expr, unit: Unit) -> bool:
    """Whether the code, or the import of what the name begins with, is for several versions."""
    if in_version_fallback(unit.semantics, node) or _is_under_availability(node):
        return True
    root = node
    while isinstance(root, ast.Attribute):
        root = root.value
    if not isinstance(root, ast.Name):
        return True
    definitions = unit.semantics.bindings(root)
    return any(
        definition.kind is not Binding.IMPORT or in_version_fallback(unit.semantics, definition.node)
        for definition in definitions
    )


def _is_under_availability(node: ast.AST) -> bool:
    """Whether a condition around a node asks a function or flag of the project whether something is there."""
    child, holder = node, parent_of(node)
    while holder is not None:
        if isinstance(holder, ast.If | ast.IfExp) and child is not holder.test and _asks(holder.test):
            return True
        if isinstance(holder, ast.BoolOp) and any(_asks(value) for value in holder.values if value is not child):
            return True
        child, holder = holder, parent_of(holder)
    return False


def _asks(test: ast.expr) -> bool:
    return any(isinstance(part, ast.Name) and bool(_ASKS.match(part.id)) for part in ast.walk(test))
