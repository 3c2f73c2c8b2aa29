"""These tests are asked for by name: they need environments of gigabytes, and minutes."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = f"{Path(__file__).parent}/"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("-m") == "frameworks":
        return
    skip = pytest.mark.skip(reason="needs PyTorch, JAX and TensorFlow environments: `make test-frameworks`")
    for item in items:
        if str(item.path).startswith(HERE):  # of all items of the suite, so not by `parents`
            item.add_marker(skip)
