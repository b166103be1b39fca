"""A pruned flow says the same as the whole one, whatever the program; and which roots add nothing to another."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.semantics.meaning import Meaning
from torchlint.semantics.flow import Action, actions, only_passes_on
from torchlint.semantics.pruning import Pruner
from torchlint.semantics.typestate import Automaton, violations
from torchlint.semantics.unit import flow_of

MOVES = {
    ("start", "a"): "armed",
    ("armed", "b"): "start",
    ("armed", "c"): "off",
}
WRONG = {("armed", "x"): "too late"}
#: Without moves at the next iteration: a loop in which nothing happens counts as none in a pruned flow.
TABLES = [
    Automaton("start", MOVES, WRONG, on_every_path=every, neutral=neutral)
    for every in (True, False)
    for neutral in (frozenset[str](), frozenset({"off"}))
]

_LEAVES = [f"o.{name}()" for name in "aabbcxxxqqq"] + ["return", "raise E", "helper(o)", "always(o)", "pass"]
_IN_LOOPS = [*_LEAVES, "break", "continue"]


def _block(depth: int, in_loop: bool) -> st.SearchStrategy[str]:
    leaf = st.sampled_from(_IN_LOOPS if in_loop else _LEAVES)
    statement = leaf if depth == 0 else st.one_of(leaf, leaf, _compound(depth - 1, in_loop))
    return st.lists(statement, min_size=1, max_size=4).map("\n".join)


def _compound(depth: int, in_loop: bool) -> st.SearchStrategy[str]:
    inner = _block(depth, in_loop)
    looped = _block(depth, True)
    return st.one_of(
        inner.map(lambda body: f"if p:\n{_indented(body)}"),
        st.tuples(inner, inner).map(lambda two: f"if p:\n{_indented(two[0])}\nelse:\n{_indented(two[1])}"),
        looped.map(lambda body: f"for i in p:\n{_indented(body)}"),
        inner.map(lambda body: f"with p:\n{_indented(body)}"),
        st.tuples(inner, inner).map(lambda two: f"try:\n{_indented(two[0])}\nexcept E:\n{_indented(two[1])}"),
        st.tuples(inner, inner).map(lambda two: f"try:\n{_indented(two[0])}\nfinally:\n{_indented(two[1])}"),
    )


def _indented(code: str) -> str:
    return textwrap.indent(code, "    ")


def classify(action: Action) -> Iterable[str]:
    return [action.verb] if action.verb in ("a", "b", "c", "x") else []


@settings(max_examples=400, deadline=None)
@given(_block(3, False), _block(2, False), _block(2, False))
def test_a_pruned_flow_has_the_violations_of_the_whole_one(body: str, helper: str, always: str) -> None:
    functions = {"f(o, p)": body, "helper(o)": helper, "always(o)": f"{always}\nraise E"}
    code = "".join(f"def {head}:\n{_indented(text)}\n" for head, text in functions.items())
    meaning = Meaning(code)
    whole = flow_of(meaning.semantics, meaning.function("f"))
    kept = [action for action in actions(whole) if list(classify(action))]
    pruned = Pruner(whole).keeping(kept)
    assert list(actions(pruned)) == kept
    for table in TABLES:
        expected = {(found.problem, found.action) for found in violations(table, whole, classify)}
        assert {(found.problem, found.action) for found in violations(table, pruned, classify)} == expected


@pytest.mark.parametrize(
    ("body", "adds_nothing"),
    [
        ("train()", True),
        ("args = parse()\ntrain(args.rate)", True),
        ("args = parse()\nprint(args)\nif args.distributed:\n    train(args)\nelse:\n    pass", True),
        ("model = torch.nn.Linear(2, 2)\ntrain(model)", False),
        ("for epoch in range(10):\n    train()", False),
        ("with torch.no_grad():\n    train()", False),
        ("train()\ntrain()", False),
        ("global optimizer\noptimizer.zero_grad()\ntrain()", False),
        ("model = torch.nn.Linear(2, 2)\nmodel.eval()\ntrain()", False),
        ("unknown.step()", False),
    ],
)
def test_a_root_that_only_passes_on_is_known(body: str, adds_nothing: bool) -> None:
    code = f"import torch\ndef train(a=None):\n    optimizer.step()\ndef main():\n{_indented(body)}\n"
    meaning = Meaning(code)
    flow = flow_of(meaning.semantics, meaning.function("main"))
    assert only_passes_on(flow, frozenset({"step", "zero_grad"})) is adds_nothing
