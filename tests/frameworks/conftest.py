"""These tests are asked for by name: they need environments of gigabytes, and minutes."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("-m") == "frameworks":
        return
    skip = pytest.mark.skip(reason="needs PyTorch, JAX and TensorFlow environments: `make test-frameworks`")
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(skip)
