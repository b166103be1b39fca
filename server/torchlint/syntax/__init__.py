"""Splitting a text into parts and parsing each by itself.

Parsing never fails: what does not parse costs its own statement and is told as a ``Problem``. This folder knows
Python and nothing of torch.
"""

from torchlint.syntax.group import Group, Trees, differing
from torchlint.syntax.module import SyntaxModule, parse_module
from torchlint.syntax.part import PARSED_BEHIND, Part, parent_of, part_of

__all__ = [
    "PARSED_BEHIND",
    "Group",
    "Part",
    "SyntaxModule",
    "Trees",
    "differing",
    "parent_of",
    "parse_module",
    "part_of",
]
