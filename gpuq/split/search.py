"""The best static share of a launch, by measuring shares, with guided chunks beside it."""

from __future__ import annotations

from gpuq.split.parts import PreparedLaunch


def search(prepared: PreparedLaunch, runs: int = 3) -> tuple[dict[int, float], float]:
    """(seconds by the first device's static share in points, those with guided chunks), each the shortest of `runs`.

    Measured is every 5 points, then every point around the best.
    """

    def seconds(points: int) -> float:
        static = (points / 100, 1 - points / 100)
        return min(prepared.run(static=static).seconds for _ in range(runs))

    measured = {points: seconds(points) for points in range(0, 101, 5)}
    centre = min(measured, key=measured.__getitem__)
    around = range(max(0, centre - 4), min(100, centre + 4) + 1)
    measured |= {points: seconds(points) for points in around if points not in measured}
    return measured, min(prepared.run().seconds for _ in range(runs))
