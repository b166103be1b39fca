"""What all tests share: property tests that give the same examples on every machine, and a clean environment."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

# A test that fails now and then because a machine is slow, or another example came up, teaches people to run it again.
settings.register_profile(
    "torchlint", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "torchlint"))


@pytest.fixture(autouse=True)
def _plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Colour and width as in a pipe, whatever the terminal that runs the tests."""
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "CLICOLOR_FORCE"):
        monkeypatch.delenv(name, raising=False)
