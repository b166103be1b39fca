"""Reading the data files that scripts/index_torch.py writes; each is read once, when a fact of it is asked for."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"


@cache
def table(name: str) -> dict[str, Any]:
    """The content of data/<name>.json, shared: callers must not change it."""
    loaded: dict[str, Any] = json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))
    return loaded
