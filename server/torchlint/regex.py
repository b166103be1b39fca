"""Regular expressions that are compiled when they are first asked for something.

A file of code needs few of the 170 that torchlint knows, and compiling all takes longer than linting a small file.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from re import compile as regex
else:

    class regex:  # noqa: N801 - to type checkers it is the function `re.compile`
        """As ``re.compile``; what is wrong with an expression is told at its first use."""

        def __init__(self, expression: str, flags: int = 0) -> None:
            self._expression = expression
            self._flags = flags

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            found = getattr(re.compile(self._expression, self._flags), name)
            # The next time it is an attribute like any other.
            setattr(self, name, found)
            return found


__all__ = ["regex"]
