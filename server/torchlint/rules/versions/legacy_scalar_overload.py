from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.fixes.editor import Editor
from torchlint.frozen import dataclass
from torchlint.idioms.surroundings.fallbacks import in_version_fallback
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_call, on_method
from torchlint.semantics.scopes import last_name
from torchlint.semantics.unit import Unit


@dataclass(frozen=True)
class _Overload:
    """An overload by its number of positional arguments; ``names`` holds None for a tensor, else what the number at
    this place is called now."""

    names: tuple[str | None, ...]

    @property
    def shown(self) -> str:
        return ", ".join(name or "tensor" for name in self.names)


def _functions() -> dict[str, dict[int, _Overload]]:
    """Overloads by function name and number of positional arguments (torch 2.13, tools/autograd/deprecated.yaml)."""
    found: dict[str, dict[int, _Overload]] = {}
    for name in ("add", "sub"):
        found[name] = {3: _Overload((None, "alpha", None))}
    for name in ("addcmul", "addcdiv"):
        found[name] = {4: _Overload((None, "value", None, None))}
    for name in ("addmm", "addmv", "addr", "addbmm", "baddbmm"):
        found[name] = {
            4: _Overload(("beta", None, None, None)),
            5: _Overload(("beta", None, "alpha", None, None)),
        }
    return found


def _methods() -> dict[str, dict[int, _Overload]]:
    """The same for methods, whose first tensor is the one that they are called on."""
    found: dict[str, dict[int, _Overload]] = {}
    for name, overloads in _functions().items():
        without = {}
        for count, overload in overloads.items():
            names = list(overload.names)
            names.remove(None)
            without[count - 1] = _Overload(tuple(names))
        found[name] = found[f"{name}_"] = without
    return found


_FUNCTIONS = {f"torch.{name}": overloads for name, overloads in _functions().items()}
_METHODS = _methods()


class LegacyScalarOverload(Rule):
    """## What it does

    Reports the old overloads that take a number between the tensors: `torch.add(a, 2, b)`, `p.add_(-lr, grad)`,
    `x.addcmul_(0.1, a, b)`, `torch.addmm(beta, x, alpha, a, b)` and their kind.

    ## Why is this bad?

    They are deprecated and warn. The number multiplies what follows it, which is easy to misread as an addend.

    ## Example

    ```python
    import torch

    y = torch.add(a, 2, b)
    ```

    ## Use instead

    ```python
    import torch

    y = torch.add(a, b, alpha=2)
    ```

    ## Exceptions

    `torch.add(2, x)` and other calls with as many arguments as tensors. `x.add(2, y)` and other methods
    without an underscore at the end are reported only where `x` is known to be a tensor, or `y` is the `data` of
    something: other classes have them, too.

    ## References

    - [torch.add](https://docs.pytorch.org/docs/stable/generated/torch.add.html)
    - [torch.addcmul](https://docs.pytorch.org/docs/stable/generated/torch.addcmul.html)
    """

    code = "TL014"
    name = "legacy-scalar-overload"
    level = Level.WARNING
    fix = FixKind.SAFE
    summary = "The overload with a number between the tensors is deprecated."

    @on_call(*_FUNCTIONS)
    def check_function(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        overloads = _FUNCTIONS.get(unit.semantics.name(call.func))
        if overloads is not None:
            yield from self._check(overloads, call, unit)

    @on_method(*_METHODS)
    def check_method(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        assert isinstance(call.func, ast.Attribute)
        overloads = _METHODS[call.func.attr]
        if len(call.args) not in overloads or unit.semantics.name(call.func) in _FUNCTIONS:
            return
        kind = unit.semantics.kind(call.func.value)
        certain = call.func.attr.endswith("_") or _is_given_data(call)
        if kind is None and (not certain or unit.semantics.names(call.func.value)):
            return
        if kind is None or kind.is_tensor:
            yield from self._check(overloads, call, unit)

    def _check(self, overloads: dict[int, _Overload], call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        overload = overloads.get(len(call.args))
        if overload is None or any(isinstance(item, ast.Starred) for item in call.args):
            return
        scalars = [name for name in overload.names if name is not None]
        if any(item.arg in scalars for item in call.keywords) or in_version_fallback(unit.semantics, call):
            return
        tail = last_name(call.func)
        by_name = " and ".join(f"`{name}`" for name in scalars)
        yield self.found(
            call,
            f"The overload `{tail}({overload.shown})` is deprecated: give {by_name} by name, after the tensors.",
            fixes=[FixPlan(f"Give {by_name} by name", "safe", lambda edit: _reorder(edit, overload, call))],
            deprecated=True,
        )


def _is_given_data(call: ast.Call) -> bool:
    """Whether the last argument is the ``data`` of something (``grad.add(weight_decay, p.data)``)."""
    last = call.args[-1]
    return isinstance(last, ast.Attribute) and last.attr == "data"


def _reorder(edit: Editor, overload: _Overload, call: ast.Call) -> None:
    """Put the tensors first and the numbers behind them, each in the place of an old argument."""
    given = list(zip(overload.names, (edit.source(item) for item in call.args), strict=True))
    texts = [text for name, text in given if name is None]
    texts += [f"{name}={text}" for name, text in given if name is not None]
    for node, text in zip(call.args, texts, strict=True):
        edit.replace(node, text)
