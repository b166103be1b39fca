"""Which rules are on: selectors, and which of them wins."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Protocol

from torchlint.frozen import dataclass
from torchlint.regex import regex

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

ALL = "ALL"
_FAMILY = regex(r"TL\d*")


class RuleLike(Protocol):
    """What settings need to know about a rule."""

    @property
    def code(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def level(self) -> Enum: ...


@dataclass(frozen=True, slots=True)
class Selection:
    """Selectors as one source gives them: codes (`TL201`), names, the beginnings of codes (`TL2`), or `ALL`.

    ``select`` of None leaves the choice to what lies below: the rules that are on by default.
    """

    select: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()

    def apply(self, rules: Sequence[RuleLike], active: frozenset[str], ignore: Iterable[str] = ()) -> frozenset[str]:
        """The codes that are on after this selection, when those in ``active`` are on before it.

        The more specific selector wins; of two that are equally specific, the one that ignores.
        """
        selected, ignored = (*(self.select or ()), *self.extend_select), (*self.ignore, *ignore)
        if self.select is not None:
            active = frozenset()
        result = set(active)
        for rule in rules:
            on = max((specificity(selector, rule.code, rule.name) for selector in selected), default=0)
            off = max((specificity(selector, rule.code, rule.name) for selector in ignored), default=0)
            if on > off:
                result.add(rule.code)
            elif off:
                result.discard(rule.code)
        return frozenset(result)


def specificity(selector: str, code: str, name: str) -> int:
    """How exactly a selector means a rule: 0 not at all, 1 with all others, more with the digits of its code."""
    if selector == ALL:
        return 1
    if selector in (code, name):
        return 100
    if _FAMILY.fullmatch(selector) and code.startswith(selector):
        return len(selector)
    return 0


def is_group(selector: str) -> bool:
    """Whether a selector is `ALL` or the beginning of codes, and means rules that it does not name."""
    return selector == ALL or (_FAMILY.fullmatch(selector) is not None and len(selector) < len("TL201"))


def is_known(selector: str, rules: Iterable[RuleLike]) -> bool:
    """Whether a selector means at least one of the rules."""
    return any(specificity(selector, rule.code, rule.name) for rule in rules)


def words(rules: Iterable[RuleLike]) -> list[str]:
    """Every selector that a person may have meant: names, codes, families, `ALL`."""
    return [ALL, *(word for rule in rules for word in (rule.code, rule.code[:3], rule.name))]
