"""The versions of torch that a project allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlint.frozen import dataclass

if TYPE_CHECKING:
    from packaging.specifiers import Specifier, SpecifierSet
    from packaging.version import Version

# `packaging` compiles one regular expression for 20 ms when it is loaded: only a project that bounds torch needs it.


@dataclass(frozen=True, init=False)
class TorchRange:
    """Versions of torch, as the alternatives of one or several PEP 440 specifier sets.

    Several alternatives come from requirements with different markers (one for each platform, say); a version is
    allowed if one of them allows it. Pre-releases, nightly builds and local versions (`2.6.0.dev20250101+cu121`) count
    as the release that they belong to; `!=` and `===` bound nothing.
    """

    alternatives: tuple[SpecifierSet, ...]

    def __init__(self, *specifiers: str | SpecifierSet) -> None:
        """Takes PEP 440 specifier sets such as ``">=2.4,<3"``. Raises ValueError for what is none."""
        from packaging.specifiers import SpecifierSet

        sets = [SpecifierSet(entry) if isinstance(entry, str) else entry for entry in specifiers]
        object.__setattr__(self, "alternatives", tuple(dict.fromkeys(sets)) or (SpecifierSet(),))

    def __str__(self) -> str:
        return " or ".join(str(alternative) or "any version" for alternative in self.alternatives)

    @property
    def lower(self) -> Version | None:
        """The release below which no version is allowed; None if there is none. `>2.3` gives 2.3 too."""
        bounds = [_lower(alternative) for alternative in self.alternatives]
        known = [bound for bound in bounds if bound is not None]
        return min(known) if len(known) == len(bounds) else None

    @property
    def upper(self) -> Version | None:
        """The release above which no version is allowed; None if there is none. `<3` gives 3 too."""
        bounds = [_upper(alternative) for alternative in self.alternatives]
        known = [bound for bound, _ in bounds if bound is not None]
        return max(known) if len(known) == len(bounds) else None

    def may_be_below(self, version: str) -> bool:
        """Whether the range allows a release older than ``version``."""
        return self.lower is None or self.lower < _version(version)

    def always_at_least(self, version: str) -> bool:
        """Whether every release in the range is ``version`` or newer."""
        return not self.may_be_below(version)

    def may_be_at_least(self, version: str) -> bool:
        """Whether the range allows ``version`` or a newer release."""
        wanted = _version(version)
        bounds = [_upper(alternative) for alternative in self.alternatives]
        return any(bound is None or bound > wanted or (included and bound == wanted) for bound, included in bounds)


def _version(text: str) -> Version:
    from packaging.version import Version

    return Version(text)


def _release(version: str) -> Version:
    return _version(_version(version.removesuffix(".*")).base_version)


def _lower(specifiers: SpecifierSet) -> Version | None:
    bounds = [_release(entry.version) for entry in specifiers if entry.operator in (">=", ">", "==", "~=")]
    return max(bounds, default=None)


def _upper(specifiers: SpecifierSet) -> tuple[Version | None, bool]:
    """The upper bound and whether it is itself allowed."""
    bounds = [bound for entry in specifiers if (bound := _upper_of(entry)) is not None]
    return min(bounds, default=(None, True))


def _upper_of(entry: Specifier) -> tuple[Version, bool] | None:
    match entry.operator:
        case "<":
            return _release(entry.version), False
        case "<=":
            return _release(entry.version), True
        case "==" if not entry.version.endswith(".*"):
            return _release(entry.version), True
        case "==":
            return _next(_release(entry.version).release), False
        case "~=":
            return _next(_release(entry.version).release[:-1]), False
    return None


def _next(release: tuple[int, ...]) -> Version:
    """The first release after all that begin with ``release``: 2.5 after (2, 4)."""
    return _version(".".join(map(str, (*release[:-1], release[-1] + 1))))
