"""How figures of each unit are written in a report."""

from __future__ import annotations

import pytest

from gpuq.sim.report import labels


@pytest.mark.parametrize(
    ("seconds", "written"),
    [
        (None, "-"), (0, "0s"), (0.00042, "0.42ms"), (0.0123, "12.3ms"), (2.5, "2.5s"), (42, "42s"), (99.4, "99s"),
        (600, "10m"), (5940, "99m"), (7260, "2h01"), (47 * 3600, "47h00"), (49 * 3600, "2d01h"), (200 * 86400, "200d"),
    ],
)  # fmt: skip
def test_durations(seconds: float | None, written: str) -> None:
    assert labels.BY_UNIT["s"](seconds) == written


@pytest.mark.parametrize(
    ("value", "written"), [(None, "-"), (0, "0%"), (0.004, "0.4%"), (0.5, "50%"), (-0.02, "-2.0%")]
)
def test_shares(value: float | None, written: str) -> None:
    assert labels.BY_UNIT["share"](value) == written


def test_counts_hours_ratios() -> None:
    assert (
        labels.BY_UNIT["count"](None),
        labels.BY_UNIT["count"](1234.0),
        labels.BY_UNIT["count"](0.5),
        labels.BY_UNIT["count"](0),
    ) == ("-", "1,234", "0.5", "0")
    assert (labels.BY_UNIT["h"](1234), labels.BY_UNIT["h"](0.75), labels.BY_UNIT["h"](None)) == ("1,234", "0.75", "-")
    assert (labels.BY_UNIT["ratio"](1.25), labels.BY_UNIT["ratio"](1234.5), labels.BY_UNIT["ratio"](None)) == (
        "1.25",
        "1,234",
        "-",
    )
