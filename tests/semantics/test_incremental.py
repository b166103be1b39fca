"""A linter that saw every keystroke says what one says that sees the text for the first time."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.markdown import read_sections
from torchlint.finding import Finding
from torchlint.linter import Linter
from torchlint.rules.base import Diagnosis, Level, Rule, on_call
from torchlint.semantics.unit import Unit
from torchlint.settings import Settings
from torchlint.text import Document

RULES = sorted(Path(__file__).parents[1].joinpath("rules").glob("*.md"))
TYPED = [
    "\n",
    "    ",
    "x",
    ".",
    "(",
    ")",
    "[",
    "]",
    "'",
    '"""',
    "#",
    ":",
    "=",
    "self.",
    "def f(self):\n",
    "for x in y:\n",
]


def programs() -> list[str]:
    """The programs of all rule tests, joined by file."""
    texts = []
    for path in RULES:
        blocks = [
            block.text for section in read_sections(path) for block in section.blocks if block.language == "python"
        ]
        texts.append("\n".join(blocks))
    return texts


def said(findings: tuple[Finding, ...]) -> list[Finding]:
    return sorted(findings, key=lambda finding: (finding.row, finding.column, finding.code, finding.message))


@pytest.fixture(scope="module")
def texts() -> list[str]:
    found = programs()
    assert found
    return found


@settings(max_examples=60)
@given(data=st.data())
def test_findings_after_edits_are_those_of_a_cold_lint(texts: list[str], data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(texts))
    linter = Linter()
    linter.analyze(Document(text))
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        removed = data.draw(st.integers(0, min(60, len(text) - start)))
        text = text[:start] + data.draw(st.sampled_from(["", *TYPED])) + text[start + removed :]
        edited = linter.analyze(Document(text))
        assert said(edited.findings) == said(Linter().analyze(Document(text)).findings)
        assert [problem.row for problem in edited.problems] == [
            problem.row for problem in Linter().analyze(Document(text)).problems
        ]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("import torch\n\n\ndef main():\n    torch.autograd.set_detect_anomaly(True)\n\n\nmain()\n", "import pytest\n"),
        (
            "import random\nimport torch\n\n\ndef main(files):\n    torch.manual_seed(0)\n    random.shuffle(files)\n",
            "from project import seed_workers\n",
        ),
    ],
)
def test_an_import_that_comes_and_goes_is_noticed_by_functions_that_do_not_use_it(text: str, line: str) -> None:
    linter = Linter()
    before = linter.analyze(Document(text)).findings
    assert before
    assert not linter.analyze(Document(line + text)).findings
    assert said(linter.analyze(Document(text)).findings) == said(before)


BYPASSED = """\
    def loop(self, loader, optimizer: torch.optim.Optimizer, scaler: torch.amp.GradScaler):
        for x in loader:
            scaler.scale(self(x).sum()).backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("class Module(pl.LightningModule):\n" + BYPASSED, "class Module:\n" + BYPASSED),
        ("class Module:\n" + BYPASSED, "class Module(pl.LightningModule):\n" + BYPASSED),
        (
            "class Module(pl.LightningModule):\n" + BYPASSED + "class Other:\n    x = 1\n",
            "class Module(pl.LightningModule):\n    x = 1\nclass Other:\n" + BYPASSED,
        ),
    ],
    ids=["no base any more", "another base", "moved to another class"],
)
def test_a_method_is_looked_at_again_where_its_class_is_another(before: str, after: str) -> None:
    linter = Linter()
    start = "import lightning.pytorch as pl\nimport torch\n"
    first = linter.analyze(Document(start + before)).findings
    assert first == Linter().analyze(Document(start + before)).findings
    found = linter.analyze(Document(start + after)).findings
    assert said(found) == said(Linter().analyze(Document(start + after)).findings)
    assert bool(found) != bool(first)


def test_code_that_is_nested_too_deeply_costs_itself_only() -> None:
    deep = "def deep(model, loader, optimizer):\n    for batch in loader:\n        loss = " + " + ".join(
        ["model(batch)"] * 2000
    )
    deep += "\n        loss.backward()\n        optimizer.step()\n"
    analysis = Linter().analyze(Document(f"import torch\n\n\n{deep}\n\nmodel.eval\n"))
    assert analysis.problems
    assert [finding.code for finding in analysis.findings] == ["TL201", "TL205"]


class _Raises(Rule):
    """## What it does"""

    code, name, level, summary = "TL999", "raises", Level.ERROR, "It raises."

    @on_call("torch.zeros")
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        yield self.found(call, "found before")
        raise ValueError("odd")


def test_a_rule_that_raised_is_told_as_long_as_the_code_is_there() -> None:
    linter = Linter([_Raises])
    text = "import torch\n\n\ndef f():\n    return torch.zeros(1)\n\n\n"
    told = [linter.analyze(Document(text + line), Settings(select=("ALL",))).problems for line in ("", "x = 1\n", "")]
    assert told[0]
    assert "TL999 (raises) failed: ValueError: odd" in told[0][0].message
    assert told == [told[0]] * 3
    assert linter.analyze(Document("import torch\n"), Settings(select=("ALL",))).problems == ()
