"""A server whose linter does what the text says, to test what no real file brings about on demand.

It reports each word `bad`. A row `# slow N` makes it work for N hundredths of a second, in units of one hundredth;
`# raise` makes it raise, `# broken rule` makes it report a rule that raised; `# log` says which texts were finished.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from torchlint.finding import Applicability, Finding, Fix, Problem, Severity, TextEdit
from torchlint.linter import Cancelled
from torchlint.lsp import serve
from torchlint.settings import Settings
from torchlint.text import Document

UNIT = 0.01


@dataclass(frozen=True)
class FakeAnalysis:
    """Findings for each `bad`."""

    document: Document
    findings: tuple[Finding, ...]
    problems: tuple[Problem, ...]

    def released(self) -> FakeAnalysis:
        """It holds nothing that takes memory."""
        return self

    def fixes(self, finding: Finding) -> tuple[Fix, ...]:
        """Make it good."""
        start = self.document.lines.offset(finding.row - 1, finding.column - 1)
        return (Fix("Make it good", "safe", (TextEdit(start, start + 3, "good"),)),)

    def fix_titles(self, finding: Finding) -> tuple[tuple[str, Applicability], ...]:
        """What that is called."""
        return (("Make it good", "safe"),)


class FakeLinter:
    """Counts what it finished on standard error."""

    def analyze(
        self, document: Document, settings: Settings | None = None, *, cancelled: Callable[[], bool]
    ) -> FakeAnalysis:
        text = document.text
        if "# raise" in text:
            raise RuntimeError("the linter is broken")
        slow = re.search(r"# slow (\d+)", text)
        for _ in range(int(slow[1]) if slow else 0):
            if cancelled():
                raise Cancelled
            time.sleep(UNIT)
        found = []
        for match in re.finditer("bad", text):
            row, column = document.lines.position(match.start())
            place = (row + 1, column + 1, row + 1, column + 4)
            found.append(Finding("TL201", "missing-zero-grad", Severity.WARNING, "it is bad", *place))
        print(f"finished {text!r}", file=sys.stderr, flush=True)
        problems = (Problem("rule", 1, "rule TL999 raised ZeroDivisionError"),) if "# broken rule" in text else ()
        return FakeAnalysis(document, tuple(found), problems)


if __name__ == "__main__":
    sys.exit(serve(FakeLinter))
