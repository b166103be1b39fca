from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.fixes.editor import Editor
from torchlint.idioms.surroundings.fallbacks import in_version_fallback
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_call
from torchlint.semantics.nodes import argument
from torchlint.semantics.unit import Unit


class CheckpointUseReentrant(Rule):
    """## What it does

    Reports `torch.utils.checkpoint.checkpoint` and `checkpoint_sequential` without `use_reentrant`.

    ## Why is this bad?

    torch warns at each run (2.13 still does), and says that a later release will raise an exception. The reentrant
    implementation gives no gradients to inputs in dictionaries and keyword arguments, and none at all when no input
    needs one (the first layers of a frozen or embedded model then silently do not train); `use_reentrant=False` has
    none of these limits and is what the documentation recommends.

    ## Example

    ```python
    import torch
    from torch.utils.checkpoint import checkpoint

    hidden = checkpoint(block, hidden)
    ```

    ## Use instead

    ```python fix="recommended"
    import torch
    from torch.utils.checkpoint import checkpoint

    hidden = checkpoint(block, hidden, use_reentrant=False)
    ```

    ## Exceptions

    Calls that unpack keyword arguments (`**options`), and code for several versions of torch. `use_reentrant=True`
    keeps what happens today: the second fix writes it.

    ## References

    - [torch.utils.checkpoint](https://docs.pytorch.org/docs/stable/checkpoint.html)
    """

    code = "TL706"
    name = "checkpoint-use-reentrant"
    level = Level.WARNING
    fix = FixKind.UNSAFE
    summary = "`checkpoint` without `use_reentrant` warns, and a later torch will refuse it."

    @on_call("torch.utils.checkpoint.checkpoint", "torch.utils.checkpoint.checkpoint_sequential")
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        given = argument(call, None, "use_reentrant")
        if given is not None or any(item.arg is None for item in call.keywords):
            return
        if in_version_fallback(unit.semantics, call):
            return
        name = unit.semantics.name(call.func).rpartition(".")[2]
        message = f"`{name}` without `use_reentrant` warns at each run, and later releases of torch will refuse it."
        yield self.found(call.func, message, fixes=list(_plans(call)))


def _plans(call: ast.Call) -> Iterator[FixPlan]:
    for value, why in ((False, "recommended"), (True, "as today")):

        def apply(edit: Editor, value: bool = value) -> None:
            edit.add_keyword(call, "use_reentrant", str(value))

        yield FixPlan(f"Pass `use_reentrant={value}` ({why})", "unsafe", apply)
