"""torchlint finds the mistakes in PyTorch code that raise no error.

``torchlint.lint(text, filename="<string>", settings=None)`` returns the findings of one text. Nothing is loaded before
it is asked for, so that importing the package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlint._version import __version__

__all__ = ["Finding", "Severity", "__version__", "lint"]

if TYPE_CHECKING:
    from torchlint.finding import Finding, Severity
    from torchlint.linter import lint
else:
    # Hidden from type checkers, to which it would mean that the package has every attribute.
    _HOMES = {"Finding": "torchlint.finding", "Severity": "torchlint.finding", "lint": "torchlint.linter"}

    def __getattr__(name: str) -> object:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value: object = getattr(import_module(home), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
