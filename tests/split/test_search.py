"""The search for the best static share: which shares are measured, and that the shortest run of each counts."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from gpuq.split.search import search


class Launch:
    """Two devices that take `alone` seconds each for the whole; the first run of each share takes half a second more."""

    def __init__(self, *alone: float) -> None:
        self.alone, self.runs = alone, []

    def run(self, static: tuple[float, float]) -> SimpleNamespace:
        share = round(100 * static[0])
        late = 0.5 * (share not in self.runs)
        self.runs.append(share)
        busy = [part * seconds for part, seconds in zip(static, self.alone, strict=True)]
        return SimpleNamespace(seconds=max(busy) + late, busy=busy)


@pytest.mark.parametrize("alone", [(1.0, 1.7), (1.0, 1.0), (3.0, 0.2), (0.01, 5.0)])
def test_the_best_of_all_points_is_found_in_a_third_of_the_runs(alone: tuple[float, float]) -> None:
    launch = Launch(*alone)
    measured = search(launch)  # type: ignore[arg-type]
    best = min(range(101), key=lambda points: max(points * alone[0], (100 - points) * alone[1]))
    assert min(measured, key=measured.__getitem__) == best
    assert measured[best] == pytest.approx(max(best * alone[0], (100 - best) * alone[1]) / 100)
    assert {0, 100, *range(max(0, best - 2), min(100, best + 2) + 1)} <= measured.keys()
    assert len(launch.runs) == 3 * len(measured) <= 3 * 17
