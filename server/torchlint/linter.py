"""One way through: a document and settings in, findings out. All doors use this and nothing below it."""

from __future__ import annotations

import ast
import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache, partial

from torchlint.finding import Applicability, Finding, Fix, Problem, Related, TextEdit
from torchlint.fixes import Editor, FixImpossible, apply_edits, minimal_edits
from torchlint.frozen import dataclass
from torchlint.rules import Diagnosis, FixPlan, Rule, all_rules
from torchlint.rules.dispatch import Dispatcher, Outcome
from torchlint.semantics.group_facts import UnitNodes
from torchlint.semantics.index import take_apart
from torchlint.semantics.memo import Memo
from torchlint.semantics.module import ModuleFacts
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.settings import Settings, Suppressions
from torchlint.syntax import SyntaxModule, parse_module, part_of
from torchlint.text import Document

#: A file with none of these texts is left at once: all that rules know of is in torch, or in what trains with it.
_MENTIONS = ("torch", "lightning", "accelerate")
#: Fix-all lints and fixes again at most this often: a fix may make room for another.
_MOST_ROUNDS = 8


def mentions_torch(text: str) -> bool:
    """Whether a text can be about torch, so that it is linted."""
    return any(mention in text for mention in _MENTIONS)


class Cancelled(Exception):
    """An analysis was given up because the caller said so."""


def _never() -> bool:
    return False


@dataclass(frozen=True, eq=False)
class Analysis:
    """What was found in one version of a document."""

    document: Document
    findings: tuple[Finding, ...] = ()
    problems: tuple[Problem, ...] = ()
    _plans: tuple[tuple[FixPlan, ...], ...] = ()
    _syntax: SyntaxModule | None = None
    _semantics: Semantics | None = None
    #: How to analyse the document again, where the trees were let go.
    _again: Callable[[], Analysis] | None = None

    def released(self) -> Analysis:
        """The same without its trees, which take far more memory than what was found. Fixes can still be asked for."""
        return replace(self, _plans=(), _syntax=None, _semantics=None)

    def take_apart(self) -> None:
        """Free the trees at once, for who is done with the analysis: it cannot be used afterwards.

        Nodes know what is around them. Left alone, they wait for the cyclic collector, which walks over all of them
        while they are still in use, and again to find that they are not.
        """
        for group in self._syntax.groups if self._syntax is not None else ():
            for part in group.parts:
                take_apart(part)
            group.trees.__dict__.clear()
        if self._semantics is not None:
            self._semantics.take_apart()

    def fixes(self, finding: Finding) -> tuple[Fix, ...]:
        """The fixes of one of the findings, computed now from the text of this analysis.

        Empty for a finding of another analysis, and where no fix can be computed.
        """
        if self._syntax is None:
            return self._again().fixes(finding) if self._again is not None and finding in self.findings else ()
        try:
            plans = self._plans[self.findings.index(finding)]
        except ValueError:
            return ()
        fixes = (self._fix(plan) for plan in plans)
        return tuple(fix for fix in fixes if fix is not None)

    def fix_titles(self, finding: Finding) -> tuple[tuple[str, Applicability], ...]:
        """What the fixes of one of the findings are called and how far each can be trusted; none is computed.

        A few of them turn out to be impossible when they are.
        """
        if self._plans and finding in self.findings:
            return tuple((plan.title, plan.applicability) for plan in self._plans[self.findings.index(finding)])
        known = finding.fix_title is not None and finding.applicability is not None
        return ((finding.fix_title, finding.applicability),) if known else ()  # type: ignore[return-value]

    def _fix(self, plan: FixPlan) -> Fix | None:
        assert self._syntax is not None
        assert self._semantics is not None
        editor = Editor(self.document, self._syntax, self._semantics)
        try:
            plan.apply(editor)
            edits = editor.edits()
        except FixImpossible:
            return None
        return Fix(plan.title, plan.applicability, edits) if edits and self._parses(edits) else None

    def _parses(self, edits: tuple[TextEdit, ...]) -> bool:
        """Whether the mended text has no problem that the text did not have."""
        assert self._syntax is not None
        mended = parse_module(apply_edits(self.document.text, edits), None if self.document.cells else self._syntax)
        return len(list(mended.problems())) <= len(list(self._syntax.problems()))


class Linter:
    """Lints one version of a document after another and keeps what did not change."""

    def __init__(self, rules: Iterable[type[Rule]] | None = None) -> None:
        self._rules = tuple(rules) if rules is not None else all_rules()
        self._memo = Memo()
        self._module: ModuleFacts | None = None

    def analyze(
        self,
        document: Document,
        settings: Settings | None = None,
        *,
        cancelled: Callable[[], bool] = _never,
    ) -> Analysis:
        """Find what the settings switch on. Never fails on any text.

        Raises Cancelled soon after ``cancelled()`` gives true; what was found until then is kept for the next call.
        """
        settings = settings if settings is not None else Settings()
        if not mentions_torch(document.text):
            return Analysis(document)
        with _collector_paused():
            return self._analyze(document, settings, cancelled)

    def _analyze(self, document: Document, settings: Settings, cancelled: Callable[[], bool]) -> Analysis:
        active = settings.active(self._rules, document.filename)
        dispatcher = _dispatcher(self._rules, active, settings.torch is not None)
        before = self._module
        syntax = parse_module(document.text, before.syntax if before is not None else None, _cell_ends(document))
        module = self._module = ModuleFacts(syntax, self._memo, before)
        semantics = Semantics(module)
        run = _Run(dispatcher, module, semantics, settings, bool(document.cells))
        diagnoses: list[Diagnosis] = []
        for nodes in module.units():
            if cancelled():
                raise Cancelled
            diagnoses.extend(run.unit(nodes))
        self._memo.forget_unused()
        found = _analysis(document, settings, syntax, semantics, diagnoses, run.failures)
        return replace(found, _again=partial(_analyze_cold, self._rules, document, settings))


def _analyze_cold(rules: tuple[type[Rule], ...], document: Document, settings: Settings) -> Analysis:
    return Linter(rules).analyze(document, settings)


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Without the cyclic collector, which would walk the trees of a file over and over while they are made."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _cell_ends(document: Document) -> tuple[int, ...]:
    """Where the cells of a notebook end in its text."""
    return tuple(document.lines.line_start(cell.first_row) for cell in document.cells[1:])


class _Run:
    """One pass over the units of a version."""

    def __init__(
        self, dispatcher: Dispatcher, module: ModuleFacts, semantics: Semantics, settings: Settings, in_notebook: bool
    ) -> None:
        self._dispatcher = dispatcher
        self._module = module
        self._semantics = semantics
        self._torch = settings.torch
        self._in_notebook = in_notebook
        self._setup = module.memo.token((dispatcher, settings.torch, in_notebook))
        self.failures: dict[str, Problem] = {}

    def unit(self, nodes: UnitNodes) -> tuple[Diagnosis, ...]:
        def compute() -> Outcome:
            return self._dispatcher.run(Unit(nodes, self._semantics, self._torch, self._in_notebook))

        outcome = self._module.memo.get((nodes.key, self._setup), compute, Outcome())
        for rule, error in outcome.failures:
            message = f"{rule.code} ({rule.name}) failed: {error}"
            self.failures.setdefault(rule.code, Problem("rule", 0, message))
        if outcome.too_deep:
            self._too_deep(nodes)
        return outcome.diagnoses

    def _too_deep(self, nodes: UnitNodes) -> None:
        part = nodes.parts[0] if nodes.parts else None
        first = part.body[0].lineno - part.lead if part is not None and part.body else 1
        row = self._module.syntax.row_of(part) + first if part is not None else 0
        message = f"`{nodes.name}` is nested too deeply to be followed: not all rules have seen it"
        self.failures.setdefault(f"depth of {nodes.name}", Problem("syntax", row, message))


@lru_cache(maxsize=32)
def _dispatcher(rules: tuple[type[Rule], ...], active: frozenset[str], torch_known: bool) -> Dispatcher:
    wanted = (rule for rule in rules if rule.code in active)
    return Dispatcher([rule for rule in wanted if torch_known or not rule.needs_torch_range])


def _analysis(
    document: Document,
    settings: Settings,
    syntax: SyntaxModule,
    semantics: Semantics,
    diagnoses: Iterable[Diagnosis],
    failures: dict[str, Problem],
) -> Analysis:
    suppressions = Suppressions.from_document(document, respect_noqa=settings.respect_noqa)
    found: dict[tuple[str, int, int, int, int], tuple[Finding, tuple[FixPlan, ...]]] = {}
    for diagnosis in diagnoses:
        finding = _finding(document, settings, syntax, diagnosis)
        place = (finding.code, finding.row, finding.column, finding.end_row, finding.end_column)
        if place not in found and not suppressions.suppresses(finding):
            found[place] = (finding, diagnosis.fixes)
    ordered = sorted(found.values(), key=lambda item: (item[0].row, item[0].column, item[0].code))
    problems = [Problem("syntax", row + 1, message) for row, message in syntax.problems()]
    return Analysis(
        document,
        tuple(finding for finding, _ in ordered),
        (*problems, *failures.values()),
        tuple(plans for _, plans in ordered),
        syntax,
        semantics,
    )


def _finding(document: Document, settings: Settings, syntax: SyntaxModule, diagnosis: Diagnosis) -> Finding:
    rule = diagnosis.rule
    row, column, end_row, end_column = _shown_span(document, syntax, diagnosis.node)
    severity = diagnosis.severity or rule.level.severity
    related = tuple(Related(message, *_shown_span(document, syntax, node)) for node, message in diagnosis.related)
    first = diagnosis.fixes[0] if diagnosis.fixes else None
    return Finding(
        code=rule.code,
        name=rule.name,
        severity=settings.severity_of(rule.code, rule.name, severity),
        message=diagnosis.message,
        row=row,
        column=column,
        end_row=end_row,
        end_column=end_column,
        related=related,
        applicability=first.applicability if first is not None else None,
        fix_title=first.title if first is not None else None,
        deprecated=diagnosis.deprecated,
    )


def _shown_span(document: Document, syntax: SyntaxModule, node: ast.AST) -> tuple[int, int, int, int]:
    """What of a node is underlined, as row, column, end row, end column from 1: of a definition its name, of a
    compound statement its header."""
    first = syntax.row_of(part_of(node)) - part_of(node).lead
    end: ast.AST = node
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            row = node.lineno - 1 + first
            start = document.lines.offset_of_ast(row + 1, node.col_offset)
            at = document.text.find(node.name, start + (6 if isinstance(node, ast.ClassDef) else 4))
            column = at - document.lines.line_start(row) + 1
            return row + 1, column, row + 1, column + len(node.name)
        case ast.For(iter=inner) | ast.AsyncFor(iter=inner) | ast.While(test=inner) | ast.If(test=inner):
            end = inner
        case ast.With(items=items) | ast.AsyncWith(items=items):
            end = items[-1].optional_vars or items[-1].context_expr
        case ast.Try():
            row = node.lineno - 1 + first
            column = document.lines.offset_of_ast(row + 1, node.col_offset) - document.lines.line_start(row)
            return row + 1, column + 1, row + 1, column + 4
        case ast.ExceptHandler():
            end = node.type or node
        case _:
            pass
    lines = document.lines
    start_row = node.lineno + first  # type: ignore[attr-defined]
    end_row = end.end_lineno + first  # type: ignore[attr-defined]
    start = lines.offset_of_ast(start_row, node.col_offset)  # type: ignore[attr-defined]
    stop = lines.offset_of_ast(end_row, end.end_col_offset)  # type: ignore[attr-defined]
    return (
        start_row,
        start - lines.line_start(start_row - 1) + 1,
        end_row,
        stop - lines.line_start(end_row - 1) + 1,
    )


def lint(text: str, filename: str = "<string>", settings: Settings | None = None) -> list[Finding]:
    """One cold lint of a text: no state is kept between calls."""
    with _collector_paused():
        analysis = Linter().analyze(Document(text, filename), settings)
        findings = list(analysis.findings)
        analysis.take_apart()
        return findings


@dataclass(frozen=True, eq=False)
class FixAllResult:
    """The mended document, the edits that lead to it from the given one, how many fixes were applied, what is left."""

    document: Document
    edits: tuple[TextEdit, ...]
    applied: int
    analysis: Analysis


def _any(finding: Finding) -> bool:
    return True


def fix_all(
    document: Document,
    settings: Settings | None = None,
    *,
    unsafe: bool = False,
    only: str | None = None,
    wanted: Callable[[Finding], bool] = _any,
) -> FixAllResult:
    """Apply all fixes that do not overlap, lint again, and repeat until nothing is left to fix.

    Only safe fixes, unless ``unsafe``; only those of one rule with ``only`` (a code); only of findings that are
    ``wanted`` (a door does not mend what it does not show). At most eight rounds.
    """
    linter = Linter()
    current, applied = document, 0
    analysis = linter.analyze(current, settings)
    for _ in range(_MOST_ROUNDS):
        edits, count = _edits_of_round(
            analysis, unsafe, lambda finding: only in (None, finding.code) and wanted(finding)
        )
        if not edits:
            break
        current = current.with_edits(edits)
        applied += count
        analysis = linter.analyze(current, settings)
    return FixAllResult(current, minimal_edits(document.text, current.text), applied, analysis)


def _edits_of_round(analysis: Analysis, unsafe: bool, wanted: Callable[[Finding], bool]) -> tuple[list[TextEdit], int]:
    """The edits of fixes that do not touch each other, first come first served, and how many fixes they are."""
    taken: list[TextEdit] = []
    count = 0
    for finding in analysis.findings:
        if finding.applicability is None or not wanted(finding):
            continue
        if finding.applicability == "unsafe" and not unsafe:
            continue
        fixes = analysis.fixes(finding)
        fix = next((fix for fix in fixes if unsafe or fix.applicability == "safe"), None)
        # Two fixes that add the same import share that edit.
        new = [edit for edit in fix.edits if edit not in taken] if fix is not None else []
        if new and not any(_touch(edit, other) for edit in new for other in taken):
            taken.extend(new)
            count += 1
    return sorted(taken, key=lambda edit: (edit.start, edit.end)), count


def _touch(one: TextEdit, other: TextEdit) -> bool:
    return one.start <= other.end and other.start <= one.end
