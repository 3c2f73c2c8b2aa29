"""The best static share of a launch, by measuring shares."""

from __future__ import annotations

from gpuq.split.parts import PreparedLaunch

_STEP = 5
_AROUND = 4


def search(prepared: PreparedLaunch, runs: int = 3) -> dict[int, float]:
    """Seconds by the first device's static share in points, each the shortest of `runs`: both devices alone, then the shares in
    steps of 5 points that can be the best, then every point around the best of them.

    A device takes no less time for a greater share. So beyond a share at which the first device ended last no greater one
    is better, and where it ended first no smaller one: half of the steps that are left need no run.
    """
    measured: dict[int, float] = {}

    def first_ends_last(points: int) -> bool:
        results = [prepared.run(static=(points / 100, 1 - points / 100)) for _ in range(runs)]
        shortest = min(results, key=lambda one: one.seconds)
        measured[points] = shortest.seconds
        return shortest.busy[0] >= shortest.busy[1]

    low, high = 0, 100
    for points in (low, high):
        first_ends_last(points)
    while high - low > _STEP:
        middle = (low + high) // (2 * _STEP) * _STEP
        low, high = (low, middle) if first_ends_last(middle) else (middle, high)
    centre = min(measured, key=measured.__getitem__)
    for points in range(max(0, centre - _AROUND), min(100, centre + _AROUND) + 1):
        if points not in measured:
            first_ends_last(points)
    return measured
