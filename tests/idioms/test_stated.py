"""What the author says about a statement in comments is seen wherever the statement stands."""

from __future__ import annotations

import ast
import re

import pytest

from tests.semantics.meaning import Meaning
from torchlint.idioms.surroundings.stated import comments_at, is_stated
from torchlint.semantics.memo import Memo
from torchlint.semantics.module import ModuleFacts
from torchlint.semantics.nodes import nodes_within
from torchlint.semantics.semantics import Semantics
from torchlint.syntax import parse_module

_SHARED = re.compile("shared")

_STATED = {
    "at the top": "import a\n# shared\nx = f(1)\n",
    "at the top, in several rows": "import a\n# shared,\n# on purpose\nx = f(1)\n",
    "at the top of the file": "# shared\nx = f(1)\n",
    "behind it": "x = f(1)  # shared\n",
    "in a block": "if a:\n    # shared\n    x = f(1)\n",
    "above a block at the top": "import a\n# shared\nfor i in b:\n    x = f(1)\n",
    "in a function": "def g():\n    # shared\n    x = f(1)\n",
    "in the body of a class": "class A:\n    y = 2\n    # shared\n    x = f(1)\n",
    "first in the body of a class": "class A:\n    # shared\n    x = f(1)\n",
    "with the line ends of Windows": "import a\r\n# shared\r\nx = f(1)\r\n",
}
_UNSTATED = {
    "a blank row between": "import a\n# shared\n\nx = f(1)\n",
    "a statement between": "# shared\nimport a\nx = f(1)\n",
    "behind the statement before": "import a  # shared\nx = f(1)\n",
    "in the block before": "if a:\n    b()\n    # shared\nx = f(1)\n",
    "in a string": "a = '''\n# shared\n'''\nx = f(1)\n",
    "below it": "x = f(1)\n# shared\n",
}


def _call(text: str) -> ast.expr:
    return Meaning(text).expression("f(1)")


@pytest.mark.parametrize("text", _STATED.values(), ids=_STATED.keys())
def test_a_comment_at_a_statement_is_seen(text: str) -> None:
    assert is_stated(_call(text), _SHARED)


@pytest.mark.parametrize("text", _UNSTATED.values(), ids=_UNSTATED.keys())
def test_a_comment_elsewhere_says_nothing(text: str) -> None:
    assert not is_stated(_call(text), _SHARED)


def test_comments_come_in_order() -> None:
    text = "import a\n# one\n# two\nx = f(1)  # three\n"
    assert comments_at(_call(text)) == ("# one", "# two", "# three")


@pytest.mark.parametrize(("before", "after"), [("# own\nx = f(1)\n", "# shared\nx = f(1)\n"), ("x = f(1)\n", None)])
def test_a_comment_that_is_typed_is_seen(before: str, after: str | None) -> None:
    old = parse_module(f"import a\n{before}y = 3\n")
    new = parse_module(f"import a\n{after or '# shared' + chr(10) + before}y = 3\n", old)
    Semantics(ModuleFacts(new, Memo()))
    calls = [call for group in new.groups for part in group.parts for call in nodes_within(part.body[0], ast.Call)]
    assert [is_stated(call, _SHARED) for call in calls] == [True]
    assert new.groups[2].parts[0] is old.groups[2].parts[0]
