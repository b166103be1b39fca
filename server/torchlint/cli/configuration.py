"""What the command line says, on top of the settings of each file."""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING

from torchlint.finding import Severity
from torchlint.frozen import dataclass
from torchlint.settings import Selection, Settings, SettingsError, SettingsResolver, read_settings
from torchlint.settings.selection import specificity

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from torchlint.finding import Finding
    from torchlint.rules import Rule


@dataclass(frozen=True, slots=True)
class Options:
    """The options that choose settings; values only, so that every process can have its own configuration."""

    selection: Selection = field(default_factory=Selection)
    #: The settings file for all files, in place of the nearest of each.
    config: Path | None = None
    #: No settings file at all.
    isolated: bool = False
    #: None: what the settings say.
    unsafe_fixes: bool | None = None


def selection(select: Iterable[str], ignore: Iterable[str], extend_select: Iterable[str]) -> Selection:
    """The selection of options that may be repeated, each with selectors between commas."""
    return Selection(_split(select) or None, _split(ignore), _split(extend_select))


def _split(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(part.strip() for value in values for part in value.split(",") if part.strip())


@dataclass(frozen=True, slots=True)
class FileSettings:
    """The settings to lint a file with, and the rules whose hints somebody asked for."""

    settings: Settings
    asked: frozenset[str]

    def shows(self, finding: Finding) -> bool:
        """Hints stay in the editor, but for those of rules that were selected by name, family or `ALL`."""
        return finding.severity is not Severity.HINT or finding.code in self.asked


class Configuration:
    """The settings of many files under the options of a run."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self.resolver = SettingsResolver(isolated=options.isolated, config=options.config, override=options.selection)
        self._finished: dict[int, tuple[Settings, FileSettings]] = {}

    def check_rules(self) -> None:
        """Raise SettingsError for an unknown rule among the options."""
        if self._options.selection != Selection():
            from torchlint.rules import all_rules

            Settings(override=self._options.selection).validate(all_rules())

    def check_config(self) -> None:
        """Raise SettingsError for a bad ``--config``."""
        config = self._options.config
        if config is not None and read_settings(config) is None:
            raise SettingsError("has no table [tool.torchlint]", config)

    def settings_for(self, path: Path) -> FileSettings:
        """The settings of a file. Raises SettingsError, each time, when its file of settings is wrong."""
        from torchlint.rules import all_rules

        found = self.resolver.settings_for(path)
        if id(found) not in self._finished:
            found.validate(all_rules())
            self._finished[id(found)] = (found, self._finish(found, all_rules()))
        return self._finished[id(found)][1]

    def unsafe_fixes(self, settings: Settings) -> bool:
        """Whether unsafe fixes are among those to apply, under these settings of the resolver."""
        unsafe = self._options.unsafe_fixes
        return settings.unsafe_fixes if unsafe is None else unsafe

    def _finish(self, settings: Settings, rules: tuple[type[Rule], ...]) -> FileSettings:
        override = settings.override or Selection()
        selectors = [*(override.select or ()), *override.extend_select]
        if override.select is None:
            selectors += [*(settings.select or ()), *settings.extend_select]
        asked = frozenset(rule.code for rule in rules if any(specificity(s, rule.code, rule.name) for s in selectors))
        # Rules that could only give hints that nobody sees do not run: `--fix` must not act on them either.
        hidden = tuple(
            rule.code
            for rule in rules
            if rule.code not in asked
            and settings.severity_of(rule.code, rule.name, rule.level.severity) is Severity.HINT
        )
        finished = replace(
            settings,
            override=replace(override, ignore=(*override.ignore, *hidden)),
            unsafe_fixes=self.unsafe_fixes(settings),
        )
        return FileSettings(finished, asked)
