"""The engine that runs tables over flows, with a table of two steps: after `a` an `x` is wrong until `b` came."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

import pytest

from tests.semantics.meaning import Meaning
from torchlint.semantics.flow import Action
from torchlint.semantics.typestate import NEXT_ITERATION, Automaton, violations
from torchlint.semantics.unit import flow_of

MOVES = {("start", "a"): "armed", ("armed", "b"): "start"}
EVERY = Automaton("start", MOVES, {("armed", "x"): "wrong"}, on_every_path=True)
SOME = Automaton("start", MOVES, {("armed", "x"): "wrong"}, on_every_path=False)


def classify(action: Action) -> Iterable[str]:
    return [action.verb] if action.verb in ("a", "b", "x") else []


def found(automaton: Automaton, code: str) -> int:
    meaning = Meaning("def f(o, p):\n" + textwrap.indent(textwrap.dedent(code).strip(), "    "))
    return len(violations(automaton, flow_of(meaning.semantics, meaning.function("f")), classify))


@pytest.mark.parametrize(
    ("code", "every", "some"),
    [
        ("o.a()\no.x()", 1, 1),
        ("o.x()\no.a()", 0, 0),
        ("o.a()\no.b()\no.x()", 0, 0),
        ("if p:\n    o.a()\no.x()", 0, 1),
        ("if p:\n    o.a()\nelse:\n    o.a()\no.x()", 1, 1),
        ("o.a()\nif p:\n    o.b()\no.x()", 0, 1),
        ("o.a()\nif p:\n    o.b()\n    return\no.x()", 1, 1),
        ("for i in p:\n    o.x()\n    o.a()", 1, 1),
        ("while p:\n    o.x()\n    o.a()\n    o.b()", 0, 0),
        ("for i in p:\n    o.x()\n    if i:\n        continue\n    o.a()", 1, 1),
        ("for i in p:\n    o.x()\n    if i:\n        break\n    o.a()", 1, 1),
        ("for i in p:\n    o.x()\n    o.a()\n    if i:\n        o.b()", 0, 1),
        ("for e in p:\n    o.b()\n    for i in e:\n        o.x()\n        o.a()", 1, 1),
        ("for i in p:\n    o.a()\no.x()", 1, 1),
        ("try:\n    o.a()\nexcept E:\n    o.b()\no.x()", 1, 1),
        ("try:\n    o.a()\nfinally:\n    o.b()\no.x()", 0, 0),
        ("with p:\n    o.a()\no.x()", 1, 1),
        ("o.a()\nassert p, o.b()\no.x()", 1, 1),
    ],
)
def test_what_a_table_finds(code: str, every: int, some: int) -> None:
    assert (found(EVERY, code), found(SOME, code)) == (every, some)


def test_the_trail_and_the_loops_are_told() -> None:
    meaning = Meaning("def f(o, p):\n    for i in p:\n        o.x()\n        o.a()\n")
    (violation,) = violations(EVERY, flow_of(meaning.semantics, meaning.function("f")), classify)
    assert [step.event for step in violation.trail] == ["x", "a"]
    assert len(violation.loops) == 1
    last = violation.last("a")
    assert last is not None
    assert last.verb == "a"


def test_paths_in_neutral_states_do_not_count() -> None:
    code = "if p:\n    o.a()\no.x()"
    neutral = Automaton("start", MOVES, {("armed", "x"): "wrong"}, neutral=frozenset(("start",)))
    assert found(neutral, code) == 1
    assert found(neutral, "o.x()") == 0


def test_the_next_iteration_of_a_loop_can_be_told_from_this_one() -> None:
    this_one = Automaton("start", {**MOVES, ("armed", NEXT_ITERATION): "start"}, {("armed", "x"): "wrong"})
    assert found(this_one, "for i in p:\n    o.x()\n    o.a()") == 0
    assert found(this_one, "for i in p:\n    o.a()\n    o.x()") == 1
    assert found(this_one, "for i in p:\n    o.a()\no.x()") == 1


def test_loops_inside_loops_cost_no_more_with_each_level_than_one_pass() -> None:
    seen: list[Action] = []

    def counted(action: Action) -> Iterable[str]:
        seen.append(action)
        return classify(action)

    depth = 14
    code = "def f(o, p):\n" + "".join(f"{'    ' * i}for i{i} in p:\n" for i in range(1, depth + 1))
    meaning = Meaning(f"{code}{'    ' * (depth + 1)}o.x(); o.a()\n")
    flow = flow_of(meaning.semantics, meaning.function("f"))
    assert len(violations(EVERY, flow, counted)) == 1
    assert len(seen) < 10 * depth
