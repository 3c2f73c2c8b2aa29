"""The search for the best static share: which shares are measured, and that the shortest run of each counts."""

from __future__ import annotations

from types import SimpleNamespace

from gpuq.split.search import search


class Launch:
    """Takes `1 + |share - 0.63|` seconds with a static share, at first half a second more, and 1.05 in guided chunks."""

    def __init__(self) -> None:
        self.runs: list[float | None] = []

    def run(self, static: tuple[float, float] | None = None) -> SimpleNamespace:
        share = None if static is None else static[0]
        first = share not in self.runs
        self.runs.append(share)
        return SimpleNamespace(seconds=1.05 if share is None else 1 + abs(share - 0.63) + 0.5 * first)


def test_every_fifth_point_is_measured_and_every_point_around_the_best() -> None:
    launch = Launch()
    measured, guided = search(launch)  # type: ignore[arg-type]
    assert set(measured) == {*range(0, 101, 5), *range(61, 70)}
    assert min(measured, key=measured.__getitem__) == 63
    assert abs(measured[63] - 1) < 1e-9
    assert (guided, launch.runs.count(None)) == (1.05, 3)


def test_at_the_edge_no_share_beyond_it_is_measured() -> None:
    launch = Launch()
    launch.run = lambda static=None: SimpleNamespace(seconds=1.0 if static is None else 1 + static[0])  # type: ignore[method-assign]
    measured, _ = search(launch)  # type: ignore[arg-type]
    assert set(measured) == {*range(0, 101, 5), *range(5)}
