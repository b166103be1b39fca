"""versions.json: names of torch that are deprecated, moved or gone, since when, and what replaces them.

The rows stand in versions.tsv, with these columns:

- name: dotted, as code writes it (an alias that is deprecated, such as torch.utils.model_zoo.load_url, by its own name)
- the same with an argument in brackets, torch.nn.MSELoss(size_average), for a keyword argument of a call
- rule: the rule that reports the name while it exists; once it is gone, that is TL001
- deprecated, gone: the first release that deprecates it, and the first that lacks it (or raises: see `how`)
- how: "module" (with all that is in it), "method" (of a tensor: `torch.Tensor.symeig`), "raises" (the name is there,
  but a call raises RuntimeError), "constant" (an attribute whose replacement is a call), "moved" (another name of the
  same thing), "argument", "drop" (the argument may be left out: what remains means the same), "inert" (it has no
  effect), "unless=True" (that value gives no warning), separated by spaces
- use: what to write instead, in the words of the message
- fix: a name that takes the place of the old one; followed by `name="value"` for arguments to add, by `"value"` for a
  first argument to add, by `[]` if it takes the arguments as one list, by
  `{a,b}` for what both modules have, by `<2` if only calls with fewer than two
  arguments and no keywords mean the same
- since: the first release that has that name

Releases were read from the Python sources and stubs in the wheels of torch 1.0.1, 1.1.0 ... 2.12.0 (every minor release
between), and by running torch 2.13; an empty cell says that no source gave it. That each row holds for the torch that
runs this (present or absent, raising, the replacement there) is checked on each run.
"""

from __future__ import annotations

import csv
import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import torch

from .names import all_bindings

ROWS = Path(__file__).with_suffix(".tsv")
#: Functions that accept an old name of an argument.
TAKE_OLD_NAMES = frozenset(("torch.nn.Hardtanh",))
_ARGUMENT = re.compile(r'(?:(\w+)=)?("[^"]*"|True|False)')


def rows() -> list[dict[str, str]]:
    """The rows of the table by column."""
    with ROWS.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def find(dotted: str) -> Any:
    """The object of a dotted name. Raises AttributeError or ImportError."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        try:
            value: Any = importlib.import_module(".".join(parts[:length]))
        except ImportError:
            continue
        for part in parts[length:]:
            value = getattr(value, part)
        return value
    raise ImportError(dotted)


def exists(dotted: str) -> bool:
    try:
        find(dotted)
    except (AttributeError, ImportError):
        return False
    return True


def raises(dotted: str) -> bool:
    """Whether a call says that the function is gone."""
    value = torch.eye(2)
    *_, owner, name = dotted.split(".")
    for arguments in ((), (value,), (value, value)):
        try:
            (getattr(value, name) if owner == "Tensor" else find(dotted))(*arguments)
        except TypeError:
            continue
        except RuntimeError as error:
            return "is now removed" in str(error)
    return False


def check(row: dict[str, str]) -> None:
    """Compare a row with the torch that runs. Raises AssertionError."""
    name, how = row["name"], row["how"].split()
    if "argument" in how:
        check_argument(row)
        return
    gone = bool(row["gone"])
    if "raises" in how:
        assert raises(name), f"{name} does not raise"
    else:
        assert exists(name) != gone, f"{name}: {'still there' if gone else 'absent'}"
    target = row["fix"].split(" ")[0]
    assert not target or exists(target), f"{name}: no {target}"
    for member in (rewrite(row) or {}).get("members", ()):
        assert getattr(find(name), member) is getattr(find(target), member), f"{name}: {member} is another"
    assert not target or row["since"], f"{name}: since when is there {target}?"


def check_argument(row: dict[str, str]) -> None:
    """Compare a row about an argument with the torch that runs. Raises AssertionError."""
    function, _, argument = row["name"].removesuffix(")").partition("(")
    parameters = inspect.signature(find(function)).parameters
    anything = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    if row["gone"]:
        assert argument not in parameters, f"{row['name']}: still there"
        assert not anything, f"{function} takes anything"
    else:
        assert argument in parameters or function in TAKE_OLD_NAMES, f"{row['name']}: absent"
    assert not row["fix"] or row["fix"] in parameters, f"{row['name']}: no {row['fix']}"


def rewrite(row: dict[str, str]) -> dict[str, Any] | None:
    """The column `fix` in parts."""
    target, _, rest = row["fix"].partition(" ")
    if not target:
        return None
    found: dict[str, Any] = {"name": target, "since": row["since"]}
    for keyword, value in _ARGUMENT.findall(rest):
        if keyword:
            found.setdefault("keywords", {})[keyword] = value
        else:
            found["first"] = value
    if "[]" in rest:
        found["as_list"] = True
    members = re.search(r"\{(.*)\}", rest)
    if members:
        found["members"] = members[1].split(",")
    limit = re.search(r"<(\d+)", rest)
    if limit:
        found["fewer_than"] = int(limit[1])
    return found


def build() -> dict[str, dict[str, Any]]:
    all_bindings()  # imports what torch imports lazily
    table: dict[str, dict[str, Any]] = {}
    for row in rows():
        check(row)
        entry: dict[str, Any] = {"rule": row["rule"]}
        for key in ("deprecated", "gone", "use"):
            if row[key]:
                entry[key] = row[key]
        if row["how"]:
            entry["how"] = row["how"]
        replacement = rewrite(row)
        if replacement is not None:
            entry["rewrite"] = replacement
        assert row["name"] not in table, row["name"]
        table[row["name"]] = entry
    return table
