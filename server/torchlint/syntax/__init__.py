"""Splitting a text into parts and parsing each by itself.

Parsing never fails: what does not parse costs its own statement and is told as a ``Problem``. This folder knows
Python and nothing of torch.
"""

from torchlint.syntax.module import Group, SyntaxModule, parse_module
from torchlint.syntax.part import Part, parent_of, part_of

__all__ = ["Group", "Part", "SyntaxModule", "parent_of", "parse_module", "part_of"]
