from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from torchlint import torch_api
from torchlint.fixes import Editor
from torchlint.rules.base import (
    Diagnosis,
    FixKind,
    FixPlan,
    Level,
    Rule,
    on_attribute_set,
    on_keyword,
    on_method,
    on_node,
)
from torchlint.semantics.kinds import Kind, What
from torchlint.semantics.nodes import argument
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

_RIGHT = "requires_grad"
#: The class of old that tensors with gradients were made of; the facts have no signature of it.
_TAKING = frozenset({"torch.autograd.Variable"})
#: Names that resemble it and are right: attributes and methods of tensors.
_OTHERS = frozenset({"requires_grad", "requires_grad_", "retains_grad", "retain_grad"})


@lru_cache(maxsize=1024)
def _is_misspelt(name: str, *, setting: bool) -> bool:
    """Whether a name differs from `requires_grad` by one or two letters left out, added, changed or exchanged."""
    if setting and name == "requires_grad_":
        return True
    if name in _OTHERS or abs(len(name) - len(_RIGHT)) > 2 or name[:1].lower() not in ("r", "e"):
        return False
    return _distance(name, _RIGHT) <= 2


def _distance(one: str, other: str) -> int:
    """The number of letters to leave out, add, change or exchange with the next (optimal string alignment)."""
    rows = [list(range(len(other) + 1))]
    for i, letter in enumerate(one, start=1):
        row = [i]
        for j, wanted in enumerate(other, start=1):
            best = min(rows[-1][j] + 1, row[j - 1] + 1, rows[-1][j - 1] + (letter != wanted))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == wanted:
                best = min(best, rows[-2][j - 2] + 1)
            row.append(best)
        rows.append(row)
    return rows[-1][-1]


#: Misspellings of the method that people write.
_METHODS = ("require_grad_", "requires_grads_", "require_grads_", "requiers_grad_", "requries_grad_", "required_grad_")


class RequiresGradTypo(Rule):
    """## What it does

    Reports misspellings of `requires_grad`, such as `require_grad` or `requires_grads`, where they are set on a tensor,
    parameter or module, or given to a function of torch by keyword. `p.requires_grad_ = False`, which replaces the
    method of that name, counts, and so does a call of `p.require_grad_(False)`.

    ## Why is this bad?

    Python lets you set any attribute: `p.require_grad = False` makes a new attribute that nothing reads, and the
    parameter is still trained. As a keyword the call raises `TypeError`.

    ## Example

    ```python
    import torchvision

    model = torchvision.models.resnet18()
    for parameter in model.parameters():
        parameter.require_grad = False
    ```

    ## Use instead

    ```python
    import torchvision

    model = torchvision.models.resnet18()
    for parameter in model.parameters():
        parameter.requires_grad = False
    ```

    ## Exceptions

    An attribute that this file reads under that name, one that an object sets on itself, and keywords of functions that
    have a parameter of that name.

    ## References

    - [torch.Tensor.requires_grad](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.requires_grad.html)
    """

    code = "TL107"
    name = "requires-grad-typo"
    level = Level.ERROR
    fix = FixKind.SAFE
    summary = "A misspelt `requires_grad` sets an attribute that nothing reads, or raises."

    @on_node(ast.AnnAssign)
    @on_attribute_set(lambda name: _is_misspelt(name, setting=True))
    def check_assignment(self, statement: ast.Assign | ast.AnnAssign, unit: Unit) -> Iterator[Diagnosis]:
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for target in targets:
            for one in target.elts if isinstance(target, ast.Tuple | ast.List) else [target]:
                if isinstance(one, ast.Attribute) and _is_misspelt(one.attr, setting=True):
                    yield from self._attribute(one, statement, unit)

    @on_method(*_METHODS)
    def check_method(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        assert isinstance(call.func, ast.Attribute)
        kind = unit.semantics.kind(call.func.value)
        of_class = kind is not None and (kind.class_node is not None or not (kind.is_tensor or kind.is_module))
        if of_class or unit.semantics.class_of_self(call.func.value) is not None:
            return
        yield self.found(
            call.func,
            f"`{call.func.attr}` is not `requires_grad_`: the call raises AttributeError.",
            fixes=[
                FixPlan("Spell it `requires_grad_`", "safe", lambda edit: edit.rename_called(call, "requires_grad_"))
            ],
        )

    def _attribute(
        self, target: ast.Attribute, statement: ast.Assign | ast.AnnAssign, unit: Unit
    ) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        if semantics.class_of_self(target.value) is not None or _is_own_attribute(target, unit):
            return
        kind = semantics.kind(target.value)
        if kind is not None and not (kind.is_tensor or kind.is_module or kind.what is What.PARAMETERS):
            return
        base = ast.unparse(target.value)
        written = f"`{base}.{target.attr}`" if len(base) <= 40 else f"`.{target.attr}`"
        consequence = "sets an attribute that nothing reads, and gradients are computed as before."
        if target.attr == "requires_grad_":
            consequence = "replaces the method of that name, and gradients are computed as before."
        yield self.found(
            target,
            f"{written} is not `requires_grad`: the assignment {consequence}",
            fixes=_attribute_fixes(target, statement, kind),
        )

    @on_keyword(lambda name: _is_misspelt(name, setting=False))
    def check_keyword(self, keyword: ast.keyword, unit: Unit) -> Iterator[Diagnosis]:
        call = parent_of(keyword)
        if not isinstance(call, ast.Call) or not _takes_requires_grad(call, unit):
            return
        fixes = []
        if argument(call, None, _RIGHT) is None:
            fixes = [FixPlan(f"Spell it `{_RIGHT}`", "safe", lambda edit: _rename(edit, keyword))]
        message = f"`{ast.unparse(call.func)}` has no argument `{keyword.arg}`: the call raises TypeError."
        yield self.found(keyword, message, fixes=fixes)


def _is_own_attribute(target: ast.Attribute, unit: Unit) -> bool:
    """Whether the file reads the attribute, so that it is one of its own."""
    return target.attr != "requires_grad_" and unit.semantics.module.reads_attribute(target.attr)


def _attribute_fixes(target: ast.Attribute, statement: ast.stmt, kind: Kind | None) -> list[FixPlan]:
    if kind is not None and (kind.is_module or kind.what is What.PARAMETERS):
        if not kind.is_module or not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            return []
        value = statement.value
        return [
            FixPlan(
                "Call `requires_grad_`, which reaches all parameters",
                "unsafe",
                lambda edit: edit.replace(
                    statement, f"{edit.source(target.value)}.requires_grad_({edit.source(value)})"
                ),
            )
        ]
    return [
        FixPlan(
            f"Spell it `{_RIGHT}`",
            "unsafe",
            lambda edit: edit.replace(target, f"{edit.source(target.value)}.{_RIGHT}"),
        )
    ]


def _rename(edit: Editor, keyword: ast.keyword) -> None:
    assert keyword.arg is not None
    edit.replace(keyword, _RIGHT + edit.source(keyword)[len(keyword.arg) :])


def _takes_requires_grad(call: ast.Call, unit: Unit) -> bool:
    """Whether a call is of something in torch that takes `requires_grad` (and so not what is written)."""
    names = unit.semantics.names(call.func)
    if names:
        return all(name in _TAKING or _RIGHT in _parameters(torch_api.signature_of(name)) for name in names)
    if not isinstance(call.func, ast.Attribute) or not call.func.attr.startswith("new_"):
        return False
    kind = unit.semantics.kind(call.func.value)
    method = torch_api.tensor_method(call.func.attr)
    return (kind is None or kind.is_tensor) and method is not None and _RIGHT in _parameters(method.signature)


def _parameters(signature: torch_api.Signature | None) -> tuple[str, ...]:
    return (*signature.positional, *signature.keyword_only) if signature is not None else ()
