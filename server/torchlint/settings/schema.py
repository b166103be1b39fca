"""The settings of torchlint, and how they are read from TOML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchlint.finding import Severity
from torchlint.frozen import dataclass
from torchlint.regex import regex
from torchlint.settings.errors import SettingsError, place_of, suggestion
from torchlint.settings.selection import RuleLike, Selection, is_group, is_known, specificity, words
from torchlint.torch_api.torch_range import TorchRange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pathspec import GitIgnoreSpec

_CODE = regex(r"[A-Za-z]+\d+")

#: Folders that hold other people's code, or none. Every name matches at any depth.
DEFAULT_EXCLUDE = (
    ".bzr",
    ".direnv",
    ".eggs",
    ".git",
    ".hg",
    ".ipynb_checkpoints",
    ".mypy_cache",
    ".nox",
    ".pixi",
    ".pytest_cache",
    ".ruff_cache",
    ".svn",
    ".torchlint_cache",
    ".tox",
    ".venv",
    ".vscode",
    "__pycache__",
    "__pypackages__",
    "build",
    "dist",
    "node_modules",
    "site-packages",
    "venv",
)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where settings were written: the file, its text, and the names of the table in it."""

    path: Path | None = None
    text: str = ""
    table: tuple[str, ...] = ()

    def error(self, reason: str, keys: tuple[str, ...], value: str | None = None) -> SettingsError:
        """An error about a key of the table, or about a string in its value."""
        row, column = place_of(self.text, (*self.table, *keys), value)
        return SettingsError(reason, self.path, row, column)


@dataclass(frozen=True)
class Settings:
    """How to lint a file. The keys are explained in `docs/configuration.md`; patterns are those of `.gitignore`."""

    #: None: every rule that is not off by default.
    select: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    #: By selector; None switches off.
    severity: Mapping[str, Severity | None] = field(default_factory=dict, hash=False)
    exclude: tuple[str, ...] = DEFAULT_EXCLUDE
    extend_exclude: tuple[str, ...] = ()
    #: Selectors to ignore, by pattern.
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    torch: TorchRange | None = None
    unsafe_fixes: bool = False
    respect_noqa: bool = False
    respect_gitignore: bool = True
    #: The folder that patterns are relative to: where the file of the settings is.
    root: Path | None = None
    #: What the command line or the editor selects on top of the file.
    override: Selection | None = None
    origin: Origin = field(default=Origin(), compare=False, repr=False)

    def active(self, rules: Iterable[RuleLike], filename: str | None = None) -> frozenset[str]:
        """The codes of the rules that are on, in the file of that name if one is given."""
        rules = tuple(rules)
        # Asked for every file, and every selector has to be held against every rule.
        on = self._active.get(rules)
        if on is None:
            on = self._active[rules] = self._selected(rules)
        if filename is None or not self.per_file_ignores:
            return on
        ignored = [
            selector
            for patterns, (_, selectors) in zip(self._file_patterns, self.per_file_ignores.items(), strict=True)
            if patterns.match_file(self.relative(Path(filename)))
            for selector in selectors
        ]
        return frozenset(
            rule.code
            for rule in rules
            if rule.code in on and not any(specificity(selector, rule.code, rule.name) for selector in ignored)
        )

    @cached_property
    def _active(self) -> dict[tuple[RuleLike, ...], frozenset[str]]:
        return {}

    def _selected(self, rules: tuple[RuleLike, ...]) -> frozenset[str]:
        on = frozenset(rule.code for rule in rules if rule.level.value != "off")
        own = self._own_selection()
        if self.override is None:
            return own.apply(rules, on)
        if self.override.select is None:
            return self.override.apply(rules, own.apply(rules, on))
        # As in ruff: what a file only ignores stays ignored when the command line selects anew.
        kept = own.ignore if self.select is None and not self.extend_select else ()
        return self.override.apply(rules, on, kept)

    def _own_selection(self) -> Selection:
        """Selectors of the file itself: a severity of "off" ignores, any other selects the rule that it is for."""
        off = (selector for selector, level in self.severity.items() if level is None)
        on = (selector for selector, level in self.severity.items() if level is not None and not is_group(selector))
        return Selection(self.select, (*self.ignore, *off), (*self.extend_select, *on))

    def findings_key(self) -> str:
        """A text that is equal for settings under which a file has the same findings (if they have the same root)."""
        severity = [(selector, level and level.value) for selector, level in self.severity.items()]
        ignores = [*self.per_file_ignores.items()]
        own = (self.select, self.ignore, self.extend_select, severity, ignores, str(self.torch), self.respect_noqa)
        over = self.override and (self.override.select, self.override.ignore, self.override.extend_select)
        return repr((own, over))

    def severity_of(self, code: str, name: str, default: Severity) -> Severity:
        """The severity of a finding of a rule: what the most specific setting says, else ``default``."""
        best, severity = 0, default
        for selector, level in self.severity.items():
            rank = specificity(selector, code, name)
            if rank > best and level is not None:
                best, severity = rank, level
        return severity

    def excludes(self, path: Path, *, folder: bool = False, base: Path | None = None) -> bool:
        """Whether the patterns exclude a file or a folder, or a folder on the way to it from ``base`` or ``root``."""
        return self._excluded.match_file(self.relative(path, base) + ("/" if folder else ""))

    def relative(self, path: Path, base: Path | None = None) -> str:
        """A path as patterns see it: relative to ``base``, else ``root``, else the working folder; with `/`.

        Of a path outside, only the name: the folders that lead there are not the project's.
        """
        path = path.absolute()
        try:
            return path.relative_to(base or self.root or Path.cwd()).as_posix()
        except ValueError:
            return path.name

    def validate(self, rules: Iterable[RuleLike]) -> None:
        """Raise SettingsError for a selector that means no rule."""
        rules = tuple(rules)
        written: list[tuple[tuple[str, ...], Iterable[str]]] = [
            (("select",), self.select or ()),
            (("ignore",), self.ignore),
            (("extend-select",), self.extend_select),
            *((("per-file-ignores", glob), selectors) for glob, selectors in self.per_file_ignores.items()),
        ]
        for keys, selectors in written:
            for selector in selectors:
                if not is_known(selector, rules):
                    raise self.origin.error(_unknown(selector, rules), keys, selector)
        for selector in self.severity:
            if not is_known(selector, rules):
                raise self.origin.error(_unknown(selector, rules), ("severity", selector))
        above = self.override or Selection()
        for selector in (*(above.select or ()), *above.ignore, *above.extend_select):
            if not is_known(selector, rules):
                raise SettingsError(_unknown(selector, rules))

    def with_override(self, override: Selection | None) -> Settings:
        """The same settings with a selection on top."""
        return replace(self, override=override)

    @cached_property
    def _excluded(self) -> GitIgnoreSpec:
        return git_patterns([*self.exclude, *self.extend_exclude])

    @cached_property
    def _file_patterns(self) -> list[GitIgnoreSpec]:
        return [git_patterns([pattern]) for pattern in self.per_file_ignores]


def _unknown(selector: str, rules: Iterable[RuleLike]) -> str:
    known = words(rules)
    if _CODE.fullmatch(selector):
        # Codes are near each other and mean different things: only their case can be guessed.
        known = [word for word in known if word == selector.upper()]
    return f"unknown rule `{selector}`{suggestion(selector, known) or ' (`torchlint rules` lists them)'}"


def parse_settings(table: Mapping[str, Any], origin: Origin, root: Path | None) -> Settings:
    """The settings in a table with the keys of `[tool.torchlint]`. Raises SettingsError for what cannot be used.

    Whether the rules that it names exist is for ``Settings.validate`` to say.
    """
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key == "tool":
            raise origin.error("the keys stand at the top of this file, without `[tool.torchlint]`", (key,))
        if key not in _READERS:
            raise origin.error(f"unknown key `{key}`{suggestion(key, _READERS)}", (key,))
        name, reader = _READERS[key]
        values[name] = reader(value, key, origin)
    return Settings(**values, root=root, origin=origin)


def _boolean(value: object, key: str, origin: Origin) -> bool:
    if not isinstance(value, bool):
        raise origin.error(f"`{key}` must be true or false, not {_shown(value)}", (key,))
    return value


def _strings(value: object, key: str, origin: Origin) -> tuple[str, ...]:
    return _string_list(value, (key,), origin)


def _string_list(value: object, keys: tuple[str, ...], origin: Origin) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
        raise origin.error(f"`{keys[-1]}` must be a list of strings, not {_shown(value)}", keys)
    return tuple(value)


def _patterns(value: object, key: str, origin: Origin) -> tuple[str, ...]:
    patterns = _strings(value, key, origin)
    for pattern in patterns:
        _check_pattern(pattern, (key,), pattern, origin)
    return patterns


def _check_pattern(pattern: str, keys: tuple[str, ...], value: str | None, origin: Origin) -> None:
    try:
        git_patterns([pattern])
    except ValueError as error:
        raise origin.error(f"`{pattern}` is not a pattern of .gitignore: {error}", keys, value) from None


def _per_file_ignores(value: object, key: str, origin: Origin) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, Mapping):
        raise origin.error(f"`{key}` must be a table of patterns and rules, not {_shown(value)}", (key,))
    for pattern in value:
        _check_pattern(pattern, (key, pattern), None, origin)
    return {pattern: _string_list(rules, (key, pattern), origin) for pattern, rules in value.items()}


def _severity(value: object, key: str, origin: Origin) -> dict[str, Severity | None]:
    if not isinstance(value, Mapping):
        raise origin.error(f"`{key}` must be a table of rules and severities, not {_shown(value)}", (key,))
    known = {**{severity.value: severity for severity in Severity}, "off": None}
    for rule, level in value.items():
        if not isinstance(level, str) or level not in known:
            near = suggestion(level, known) if isinstance(level, str) else ""
            words_ = ", ".join(known)
            raise origin.error(f"severity of `{rule}` must be one of {words_}, not {_shown(level)}{near}", (key, rule))
    return {rule: known[level] for rule, level in value.items()}


def _torch_range(value: object, key: str, origin: Origin) -> TorchRange:
    try:
        if not isinstance(value, str) or not value.strip():
            raise ValueError
        return TorchRange(value)
    except ValueError:
        reason = f'`{key}` must be a version specifier such as ">=2.4" or ">=2.4,<3", not {_shown(value)}'
        raise origin.error(reason, (key,)) from None


def _shown(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return f'"{value}"'
        case list():
            return "a list" if all(isinstance(entry, str) for entry in value) else "a list with other values"
        case Mapping():
            return "a table"
    return str(value)


#: For each key its field of Settings, and what reads its value.
_READERS: dict[str, tuple[str, Callable[[object, str, Origin], object]]] = {
    "select": ("select", _strings),
    "ignore": ("ignore", _strings),
    "extend-select": ("extend_select", _strings),
    "severity": ("severity", _severity),
    "exclude": ("exclude", _patterns),
    "extend-exclude": ("extend_exclude", _patterns),
    "per-file-ignores": ("per_file_ignores", _per_file_ignores),
    "torch-version": ("torch", _torch_range),
    "unsafe-fixes": ("unsafe_fixes", _boolean),
    "respect-noqa": ("respect_noqa", _boolean),
    "respect-gitignore": ("respect_gitignore", _boolean),
}
#: The keys of the table, as they are written in TOML.
KEYS = tuple(_READERS)


def git_patterns(lines: Iterable[str]) -> GitIgnoreSpec:
    """The patterns in the lines of a `.gitignore`. Raises ValueError for what is none."""
    # Loaded when a pattern is first looked at: linting one named file needs none.
    from pathspec import GitIgnoreSpec

    return GitIgnoreSpec.from_lines(lines)
