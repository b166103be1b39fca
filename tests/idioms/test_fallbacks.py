"""Code that provides for several versions of torch."""

from __future__ import annotations

import pytest

from tests.semantics.meaning import Meaning
from torchlint.idioms.surroundings.fallbacks import in_version_fallback

INSIDE = [
    "try:\n    here()\nexcept ImportError:\n    pass",
    "try:\n    pass\nexcept (AttributeError, KeyError):\n    here()",
    "try:\n    pass\nexcept:\n    here()",
    "if hasattr(torch, 'x'):\n    pass\nelse:\n    here()",
    "y = here() if torch.__version__ >= '2.4' else None",
    "if TORCH_2_4:\n    here()",
    "if is_torch_version('>=', '2.4'):\n    here()",
    "if sys.version_info >= (3, 9):\n    here()",
    "OLD = parse(torch.__version__) < parse('2.0')\nif OLD:\n    here()",
    "try:\n    import x\n    has_x = True\nexcept ImportError:\n    has_x = False\nif not has_x:\n    here()",
    "ok = hasattr(torch, 'x') and here()",
    "with contextlib.suppress(AttributeError):\n    here()",
    "def f():\n    if hasattr(torch, 'x'):\n        return 1\n    return here()",
    "def f():\n    assert torch.__version__ > '2'\n    here()",
    "if hasattr(torch, 'x'):\n    def f():\n        here()",
]
OUTSIDE = [
    "here()",
    "try:\n    here()\nexcept ValueError:\n    pass",
    "try:\n    import x\nexcept ImportError:\n    x = None\nhere()",
    "try:\n    pass\nexcept ImportError:\n    pass\nfinally:\n    here()",
    "if flag:\n    here()",
    "if len(sizes) > 2 and name == 'resnet50':\n    here()",
    "def f():\n    if flag:\n        return 1\n    return here()",
    "if here():\n    pass",
    "if hasattr(torch, 'x'):\n    pass\nhere()",
]


def _is_inside(code: str) -> bool:
    meaning = Meaning("import contextlib, sys, torch\n" + code)
    (call,) = meaning.semantics.module.calls_of("here")
    return in_version_fallback(meaning.semantics, call)


@pytest.mark.parametrize("code", INSIDE)
def test_inside(code: str) -> None:
    assert _is_inside(code)


@pytest.mark.parametrize("code", OUTSIDE)
def test_outside(code: str) -> None:
    assert not _is_inside(code)
