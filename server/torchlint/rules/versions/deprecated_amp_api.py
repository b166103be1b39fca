from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.fixes.editor import Editor, FixImpossible
from torchlint.idioms.surroundings.fallbacks import in_version_fallback
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_assignment, on_call, on_reference
from torchlint.semantics.scopes import last_name
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of
from torchlint.torch_api import AmpReplacement, amp_replacement

_NAMES = tuple(
    f"torch.{device}.amp.{name}"
    for device, names in (
        ("cuda", ("autocast", "GradScaler", "custom_fwd", "custom_bwd")),
        ("cpu", ("autocast", "GradScaler")),
    )
    for name in names
)
_TAILS = frozenset(name.rpartition(".")[2] for name in _NAMES)
#: Releases before this one are older than anything that torchlint speaks about when the project does not say.
_OLDEST = "2.0"


class DeprecatedAmpApi(Rule):
    """## What it does

    Reports `torch.cuda.amp` and `torch.cpu.amp`: `autocast`, `GradScaler`, `custom_fwd`, `custom_bwd`.

    ## Why is this bad?

    They are deprecated since torch 2.4 and give a `FutureWarning` on each use. `torch.amp` has the same for every
    device; the device type is its first argument. Other positional arguments do not stand in the same order there
    (`autocast(False)` would become a dtype), so the fix gives them by name.

    ## Example

    ```python
    import torch

    with torch.cuda.amp.autocast(False):
        output = model(images)
    ```

    ## Use instead

    ```python
    import torch

    with torch.amp.autocast("cuda", enabled=False):
        output = model(images)
    ```

    ## Exceptions

    Code for several versions: inside `try`/`except ImportError`, under `hasattr` or a test of the version. A project
    that allows only torch before 2.4 is not told; one that allows a torch without the replacement is told but gets no
    fix (`torch.amp.GradScaler` came with 2.3, `custom_fwd` and `custom_bwd` with 2.4).

    ## References

    - [Automatic Mixed Precision package](https://docs.pytorch.org/docs/stable/amp.html)
    """

    code = "TL013"
    name = "deprecated-amp-api"
    level = Level.WARNING
    fix = FixKind.SAFE
    summary = "This name is deprecated since torch 2.4: `torch.amp` has it for every device."

    @on_call(*_NAMES)
    def check_call(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        yield from self._check(call.func, call, unit)

    @on_reference(*_TAILS)
    def check_decorator_or_base(self, node: ast.expr, unit: Unit) -> Iterator[Diagnosis]:
        match parent_of(node):
            case ast.FunctionDef(decorator_list=places) | ast.AsyncFunctionDef(decorator_list=places):
                pass
            case ast.ClassDef(bases=places):
                pass
            case _:
                return
        if node in places:
            yield from self._check(node, None, unit)

    @on_assignment(to=(ast.Name, ast.Attribute), of=(ast.IfExp,))
    def check_choice(self, statement: ast.Assign, unit: Unit) -> Iterator[Diagnosis]:
        assert isinstance(statement.value, ast.IfExp)
        for chosen in (statement.value.body, statement.value.orelse):
            if last_name(chosen) in _TAILS:
                yield from self._check(chosen, None, unit)

    @on_assignment(to=(ast.Name,), of=(ast.Attribute, ast.Name))
    def check_alternative(self, statement: ast.Assign, unit: Unit) -> Iterator[Diagnosis]:
        # `context = autocast` beside `context = nullcontext`: a call of the name does not say which it is.
        if last_name(statement.value) in _TAILS and any(
            _is_alternative(item, statement) for item in unit.all(ast.Assign)
        ):
            yield from self._check(statement.value, None, unit)

    def _check(self, used: ast.expr, call: ast.Call | None, unit: Unit) -> Iterator[Diagnosis]:
        entry = amp_replacement(unit.semantics.name(used))
        if entry is None or (unit.torch is not None and not unit.torch.may_be_at_least(entry.deprecated_since)):
            return
        if in_version_fallback(unit.semantics, used):
            return
        message = (
            f"`{entry.name}` is deprecated since torch {entry.deprecated_since}: "
            f"use `{entry.replacement}({_device(entry)}, ...)`."
        )
        fixable = not _lacks_replacement(entry, unit) and (
            not _is_unreadable(call) if call is not None else _takes_only_function(entry)
        )
        fixes = [_plan(entry, used, call, unit)] if fixable else []
        yield self.found(used, message, fixes=fixes, deprecated=True)


def _is_alternative(other: ast.AST, statement: ast.Assign) -> bool:
    """Whether another assignment binds the same name."""
    if not isinstance(other, ast.Assign) or other is statement:
        return False
    names = {target.id for target in statement.targets if isinstance(target, ast.Name)}
    return any(isinstance(target, ast.Name) and target.id in names for target in other.targets)


def _lacks_replacement(entry: AmpReplacement, unit: Unit) -> bool:
    """Whether the project allows a torch in which the replacement does not exist."""
    return unit.torch is not None and unit.torch.may_be_below(entry.replacement_since)


def _is_unreadable(call: ast.Call) -> bool:
    return any(isinstance(item, ast.Starred) for item in call.args)


def _takes_only_function(entry: AmpReplacement) -> bool:
    """Whether the name is a decorator without brackets, as `custom_fwd` may be (`@autocast` has never worked)."""
    return entry.device_parameter in entry.new.keyword_only


def _plan(entry: AmpReplacement, used: ast.expr, call: ast.Call | None, unit: Unit) -> FixPlan:
    certain = unit.torch is not None or _release(entry.replacement_since) <= _release(_OLDEST)
    title = f"Replace with `{entry.replacement}`"
    if not certain:
        title += f" (torch {entry.replacement_since} or newer)"
    return FixPlan(title, "safe" if certain else "unsafe", lambda edit: _rewrite(edit, entry, used, call))


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _device(entry: AmpReplacement) -> str:
    """The argument that tells the replacement its device."""
    keyword = f"{entry.device_parameter}=" if entry.device_parameter in entry.new.keyword_only else ""
    return f'{keyword}"{entry.device}"'


def _rewrite(edit: Editor, entry: AmpReplacement, used: ast.expr, call: ast.Call | None) -> None:
    keyword_only = entry.device_parameter in entry.new.keyword_only
    device = _device(entry)
    name = edit.spell(entry.replacement)
    if call is None:
        edit.replace(used, f"{name}({device})")
        return
    if not call.args and not call.keywords:
        edit.replace(call, f"{name}({device})")
        return
    if len(call.args) > len(entry.old.positional):
        raise FixImpossible("more arguments than parameters")
    edit.replace(used, name)
    if keyword_only:
        last = call.keywords[-1] if call.keywords else call.args[-1]
        if call.keywords and call.keywords[-1].arg is None:
            edit.insert_before(last, f"{device}, ")
        else:
            edit.insert_after(last, f", {device}")
        return
    first: ast.AST = call.args[0] if call.args else call.keywords[0]
    for position, value in enumerate(call.args):
        known = entry.old.positional[position]
        prefix = f"{device}, " if value is first else ""
        edit.insert_before(value, f"{prefix}{known}=")
    if not call.args:
        edit.insert_before(first, f"{device}, ")
