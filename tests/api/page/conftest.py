"""The browser's fixtures."""

from tests.support.browser import browser, chromium

__all__ = ["browser", "chromium"]
