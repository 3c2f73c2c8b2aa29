"""The browser's fixtures, and pages that wait for what is calculated."""

from __future__ import annotations

import pytest

from tests.support.browser import browser, chromium

__all__ = ["browser", "chromium"]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine does not turn a page into one that says that it comes."""
    monkeypatch.setattr("gpuq.api.kept.FIRST_WITHIN_S", 20.0)
