"""Names of torch that are deprecated, moved or gone: since when, and what replaces them (scripts/torch_index/versions).

A name is looked up as code writes it (`torch.utils.model_zoo.load_url`), then by its canonical form.
"""

from __future__ import annotations

from dataclasses import field
from functools import cache

from torchlint.frozen import dataclass

from .names import canonical
from .tables import table
from .torch_range import TorchRange

#: Where nothing is known about the project, releases before this one are not thought of.
OLDEST = "2.0"


@dataclass(frozen=True)
class Rewrite:
    """A name that takes the place of another: `name` exists from torch `since` on.

    `first` is an argument (source text) to put before all others, `keywords` are arguments to add. `as_list`: the
    positional arguments become one list. `fewer_than`: only calls with fewer positional arguments, and no keywords,
    mean the same. `called`: the old name is a value, the new one a function to be called.
    `members`: what the old and the new module both have.
    """

    name: str
    since: str
    first: str = ""
    keywords: tuple[tuple[str, str], ...] = ()
    as_list: bool = False
    fewer_than: int | None = None
    called: bool = False
    members: tuple[str, ...] = ()

    @property
    def is_rename(self) -> bool:
        """Whether the new name does the same wherever the old one stands."""
        return not (self.first or self.keywords or self.as_list or self.called or self.fewer_than is not None)


@dataclass(frozen=True)
class VersionedName:
    """A name that not every release of torch has, or likes.

    `rule` is the code of the rule that reports it while it exists. `deprecated` and `gone` are the first releases that
    deprecate it and that lack it ("" where that is not known, or never). `raises`: it is there still, but a call raises
    RuntimeError. `moved`: it is the same thing under an old name. `is_module`: everything in the module counts. `use`
    is what to write instead, in Markdown.
    """

    name: str
    rule: str
    deprecated: str = ""
    gone: str = ""
    use: str = ""
    raises: bool = False
    is_module: bool = False
    moved: bool = False
    rewrite: Rewrite | None = field(default=None)

    def is_gone(self, allowed: TorchRange | None) -> bool:
        """Whether a release that the project allows lacks the name; where nothing is known, every one from 2.0 on."""
        if not self.gone:
            return False
        return _release(self.gone) <= _release(OLDEST) if allowed is None else allowed.may_be_at_least(self.gone)

    def is_deprecated(self, allowed: TorchRange | None) -> bool:
        """Whether a release that the project allows deprecates the name."""
        since = self.deprecated or self.gone
        return allowed is None or not since or allowed.may_be_at_least(since)


@cache
def versioned_name(name: str) -> VersionedName | None:
    """What is known of a dotted name; None for names that are well in every release, or not known at all."""
    entry = table("versions").get(name)
    if entry is None:
        preferred = canonical(name)
        return versioned_name(preferred) if preferred != name else None
    how = entry.get("how", "").split()
    written = entry.get("rewrite")
    rewrite = None
    if written is not None:
        rewrite = Rewrite(
            name=written["name"],
            since=written["since"],
            first=written.get("first", ""),
            keywords=tuple(written.get("keywords", {}).items()),
            as_list=written.get("as_list", False),
            fewer_than=written.get("fewer_than"),
            called="constant" in how,
            members=tuple(written.get("members", ())),
        )
    return VersionedName(
        name=name,
        rule=entry["rule"],
        deprecated=entry.get("deprecated", ""),
        gone=entry.get("gone", ""),
        use=entry.get("use", ""),
        raises="raises" in how,
        is_module="module" in how,
        moved="moved" in how,
        rewrite=rewrite,
    )


@cache
def versioned_module(name: str) -> VersionedName | None:
    """The module that a dotted name is or lies in, if the table has it as a whole."""
    while name:
        found = versioned_name(name)
        if found is not None and found.is_module:
            return found
        name = name.rpartition(".")[0]
    return None


@dataclass(frozen=True)
class VersionedArgument:
    """A keyword argument that not every release of torch accepts, or likes.

    `deprecated` and `gone` are the first releases that deprecate it and that reject it with a TypeError ("" where that
    is not known, or never). `renamed`: what it is called now. `droppable`: a call means the same without it. `inert`:
    it has no effect. `unless` is a value, as source text, that no release warns of. `use` is what to use instead, in
    Markdown.
    """

    function: str
    argument: str
    deprecated: str = ""
    gone: str = ""
    renamed: str = ""
    droppable: bool = False
    inert: bool = False
    unless: str = ""
    use: str = ""

    def is_gone(self, allowed: TorchRange | None) -> bool:
        """Whether a release that the project allows (where nothing is known, the newest) rejects the argument."""
        return bool(self.gone) and (allowed is None or allowed.may_be_at_least(self.gone))

    def is_deprecated(self, allowed: TorchRange | None) -> bool:
        """Whether a release that the project allows deprecates the argument."""
        return bool(self.deprecated) and (allowed is None or allowed.may_be_at_least(self.deprecated))


@cache
def versioned_arguments(function: str) -> tuple[VersionedArgument, ...]:
    """The arguments of a function, by its canonical name, that came or went."""
    return _arguments().get(function, ())


@cache
def versioned_calls() -> tuple[str, ...]:
    """The canonical names of all functions with such arguments, methods of tensors left out."""
    return tuple(name for name in _arguments() if not name.startswith("torch.Tensor."))


@cache
def _arguments() -> dict[str, tuple[VersionedArgument, ...]]:
    found: dict[str, tuple[VersionedArgument, ...]] = {}
    for name, entry in table("versions").items():
        how = entry.get("how", "").split()
        if "argument" not in how:
            continue
        function, _, argument = name.removesuffix(")").partition("(")
        known = VersionedArgument(
            function=function,
            argument=argument,
            deprecated=entry.get("deprecated", ""),
            gone=entry.get("gone", ""),
            renamed=entry.get("rewrite", {}).get("name", ""),
            droppable="drop" in how,
            inert="inert" in how,
            unless=next((word.partition("=")[2] for word in how if word.startswith("unless=")), ""),
            use=entry.get("use", ""),
        )
        found[function] = (*found.get(function, ()), known)
    return found


@cache
def versioned_tails(rule: str) -> tuple[str, ...]:
    """The last names of all names that a rule may report, methods of tensors left out."""
    names = (
        name
        for name, entry in table("versions").items()
        if "method" not in entry.get("how", "") and ("gone" in entry if rule == "TL001" else entry["rule"] == rule)
    )
    return tuple(sorted({name.rpartition(".")[2] for name in names}))


@cache
def versioned_methods(rule: str) -> tuple[str, ...]:
    """The names of the methods of tensors that a rule may report."""
    names = (name for name, entry in table("versions").items() if entry.get("how", "") in ("method", "raises method"))
    found = (name.rpartition(".")[2] for name in names if ("gone" in table("versions")[name]) == (rule == "TL001"))
    return tuple(sorted(set(found)))


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
