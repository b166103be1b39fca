"""The Language Server Protocol door: session state, and one module per protocol method.

Nothing outside this package knows the protocol; nothing in it knows what a rule is about.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchlint.lsp.analyses import MakeLinter

__all__ = ["serve"]


def serve(make_linter: MakeLinter | None = None) -> int:
    """Serve one client over standard input and output until it leaves; returns the exit status.

    0 after an orderly `shutdown` and `exit`, 1 when the client vanished. ``make_linter`` is called once for every
    open file and notebook; tests put a linter of their own in.
    """
    from torchlint.lsp.main import run

    return run(make_linter)
