from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.idioms.surroundings.fallbacks import in_version_fallback
from torchlint.rules.base import Diagnosis, FixKind, Level, Rule, on_call, on_method
from torchlint.rules.versions._versioned import argument_plans
from torchlint.semantics.nodes import enclosing_class
from torchlint.semantics.unit import Unit
from torchlint.torch_api import VersionedArgument, signature_of, versioned_arguments, versioned_calls


class RemovedArgument(Rule):
    """## What it does

    Reports arguments that torch no longer accepts, such as `verbose=` of the learning rate schedulers: by name, as the
    last positional one, and given to `super().__init__` in a class that inherits from a scheduler.

    ## Why is this bad?

    The call raises a TypeError with the torch that the project will get (with today's, where nothing is known about
    the project).

    ## Example

    ```python
    from torch.optim.lr_scheduler import StepLR

    scheduler = StepLR(optimizer, step_size=30, verbose=True)
    ```

    ## Use instead

    ```python
    from torch.optim.lr_scheduler import StepLR

    scheduler = StepLR(optimizer, step_size=30)
    ```

    ## Exceptions

    A project that allows only releases that accept the argument, and code for several versions: inside `try`/`except
    TypeError`, or under a test of the version. There is no fix where the value is computed by a call. The fix is not
    a safe one while the project allows a release in which the argument had an effect.

    ## References

    - [torch.optim: how to adjust the learning rate](https://docs.pytorch.org/docs/stable/optim.html)
    - [PyTorch release notes](https://github.com/pytorch/pytorch/releases)
    """

    code = "TL003"
    name = "removed-argument"
    level = Level.ERROR
    fix = FixKind.SAFE
    summary = "This argument is gone: the call raises a TypeError."

    @on_call(*versioned_calls())
    def check_call(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        for name in unit.semantics.names(call.func):
            yield from self._check(name, call, unit)
            return

    @on_call("functools.partial")
    def check_partial(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        if len(call.args) == 1 and call.keywords:
            yield from self._check(unit.semantics.name(call.args[0]), call, unit)

    @on_method("backward")
    def check_method(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        assert isinstance(call.func, ast.Attribute)
        if call.keywords:
            kind = unit.semantics.kind(call.func.value)
            if kind is not None and kind.is_tensor:
                yield from self._check("torch.Tensor.backward", call, unit)

    @on_method("__init__")
    def check_base(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        if call.args or call.keywords:
            yield from self._check(_initialised_base(call, unit), call, unit)

    def _check(self, function: str, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        for known in versioned_arguments(function):
            given = _given(known, call)
            if given is None or not known.is_gone(unit.torch) or in_version_fallback(unit.semantics, call):
                continue
            certain = unit.torch is None or unit.torch.always_at_least(known.gone)
            value = given.value if isinstance(given, ast.keyword) else given
            simple = isinstance(value, ast.Constant | ast.Name | ast.Attribute)
            advice = f": use {known.use}." if known.use else "."
            yield self.found(
                given,
                f"`{known.function}` does not accept `{known.argument}` from torch {known.gone} on{advice}",
                fixes=argument_plans(known, call, given, removable=simple, certain=certain),
            )


def _given(known: VersionedArgument, call: ast.Call) -> ast.keyword | ast.expr | None:
    """The argument, by its name, or as the one positional argument more than the function takes today."""
    for item in call.keywords:
        if item.arg == known.argument:
            return item
    if not call.args or not known.droppable or any(isinstance(item, ast.Starred) for item in call.args):
        return None
    signature = signature_of(known.function.replace("._LRScheduler", ".LRScheduler"))
    if signature is None or signature.keyword_only or signature.variadic:
        return None
    return call.args[-1] if len(call.args) == len(signature.positional) + 1 else None


def _initialised_base(call: ast.Call, unit: Unit) -> str:
    """The name of the only base of a class whose ``super().__init__(...)`` a call is; an empty text if it is none."""
    match call.func:
        case ast.Attribute(value=ast.Call(func=ast.Name(id="super"))):
            owner = enclosing_class(call)
        case _:
            return ""
    return unit.semantics.name(owner.bases[0]) if owner is not None and len(owner.bases) == 1 else ""
