"""Settings: where they are found, what they may say, which rules and files they choose, and suppression comments."""

from torchlint.settings.directives import Directive, Word
from torchlint.settings.discovery import SETTINGS_FILES, SettingsResolver, read_settings, settings_for
from torchlint.settings.errors import SettingsError
from torchlint.settings.files import SUFFIXES, discover
from torchlint.settings.schema import DEFAULT_EXCLUDE, Origin, Settings, parse_settings
from torchlint.settings.selection import RuleLike, Selection
from torchlint.settings.suppressions import (
    Suppressions,
    suppression_at,
    suppression_edit,
    suppression_edit_at,
    suppression_title,
)

__all__ = [
    "DEFAULT_EXCLUDE",
    "SETTINGS_FILES",
    "SUFFIXES",
    "Directive",
    "Origin",
    "RuleLike",
    "Selection",
    "Settings",
    "SettingsError",
    "SettingsResolver",
    "Suppressions",
    "Word",
    "discover",
    "parse_settings",
    "read_settings",
    "settings_for",
    "suppression_at",
    "suppression_edit",
    "suppression_edit_at",
    "suppression_title",
]
