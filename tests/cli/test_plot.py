"""Series as lines of blocks."""

from __future__ import annotations

from typing import Any

from gpuq.cli.plot import line, screen


def series(*values: tuple[float, float | None]) -> dict[str, Any]:
    rest: dict[str, Any] = {"memory_bytes": None, "rate": None, "power_watts": None, "partners": []}
    return {"points": [{"at_unix": at, "utilization_pct": value, **rest} for at, value in values]}


def test_a_line_goes_from_nothing_to_the_most() -> None:
    assert line([0.0, 50.0, None, 100.0]) == "▁▅ █"
    assert line([0.0, 0.0]) == "▁▁"
    assert line([None]) == " "


def test_a_gap_in_time_is_seen() -> None:
    first = next(iter(screen(series((0, 80.0), (10, 80.0), (21, 80.0), (29, 80.0), (70, 80.0), (80, 80.0)), 80)))
    assert first.split(maxsplit=1)[1] == "▇▇▇▇   ▇▇  80% to 80%"


def test_a_utilisation_of_nearly_nothing_is_low() -> None:
    first = next(iter(screen(series((0, 0.0), (10, 0.4)), 80)))
    assert first.split(maxsplit=1)[1] == "▁▁  0% to 0%"


def test_many_points_fit_into_the_terminal() -> None:
    lines = list(screen(series(*((10.0 * n, float(n % 100)) for n in range(1440))), 80))
    assert max(map(len, lines)) <= 80
    assert " " not in lines[0].split(maxsplit=1)[1].split("  ")[0], "no column is without a point"
