"""The kinds of code actions, and which of them a request asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

from torchlint.lsp.reports import SOURCE

if TYPE_CHECKING:
    from collections.abc import Sequence

QUICK_FIX = types.CodeActionKind.QuickFix.value
FIX_ALL = f"{types.CodeActionKind.SourceFixAll.value}.{SOURCE}"
#: An editor asks for `source.fixAll` once per cell, at the same time: the fixes of a notebook have a kind of their own,
#: which it asks for once.
NOTEBOOK_FIX_ALL = f"notebook.{FIX_ALL}"

OPTIONS = types.CodeActionOptions(code_action_kinds=[QUICK_FIX, FIX_ALL, NOTEBOOK_FIX_ALL], resolve_provider=True)


def is_requested(kind: str, only: Sequence[types.CodeActionKind | str] | None) -> bool:
    """Whether a request asks for a kind. What it names are beginnings of kinds; nothing named means all."""
    names = [wanted.value if isinstance(wanted, types.CodeActionKind) else wanted for wanted in only or ()]
    return not names or any(kind == name or kind.startswith(f"{name}.") for name in names)
