"""One gpuq on the hosts of a lab for all stories of a fleet. `make test-fleet` runs them; they are not part of `make test`."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.fleet.fleet import Fleet
from tests.fleet.rows import Row
from tests.support.lab import why_not

HERE = f"{Path(__file__).parent}/"
FAILED = Path(__file__).parents[2] / "build" / "fleet"
"""What is kept of stories that failed."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if str(item.path).startswith(HERE):  # of all items of the suite, so not by `parents`
            item.add_marker(pytest.mark.fleet)


@pytest.fixture(scope="session")
def shared_fleet() -> Iterator[Fleet]:
    if reason := why_not():
        pytest.skip(reason)
    with Fleet() as fleet:
        yield fleet


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    fleet = getattr(item, "funcargs", {}).get("shared_fleet")
    if report.failed and isinstance(fleet, Fleet):
        fleet.keep(FAILED / f"{item.name}-{time.strftime('%H%M%S')}")
    return report


@pytest.fixture
def fleet(shared_fleet: Fleet) -> Fleet:
    """Whole, also after a story that failed in between."""
    shared_fleet.mend()
    return shared_fleet


@pytest.fixture
def row(request: pytest.FixtureRequest) -> Row:
    """The row that is named as its test is; `@pytest.mark.short_form(N)` says how often it is repeated without `--count`."""
    marker = request.node.get_closest_marker("short_form")
    short = marker.args[0] if marker else 1
    name = request.node.name.removeprefix("test_").replace("[", "-").rstrip("]")
    config = request.config
    return Row(name, config.getoption("--count") or short, config.getoption("--seed"), config.getoption("--budget"))
