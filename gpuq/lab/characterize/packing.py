"""What it cost, and saved, to run two jobs together: pair by pair, and within clusters against across them.

Slowdowns and savings are computed from a pair's own times where there are some. Rows that contradict themselves or a repetition
are kept with the reasons, and count in no summary.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean, median

import msgspec

from gpuq.core.measuring.slowdown import packing_saving
from gpuq.lab.characterize.table import MeasuredPair, usable
from gpuq.learn.statistics import order_statistic

# Printed and computed values may differ by the rounding of either.
_PRINT_SLACK = 0.0035
# The same run repeated differs by about 4% in the middle and 22% at the 99th percentile (830 pairs measured twice on a
# consumer GPU), so less than 5% of speed gained is noise and a quarter of difference is not.
_NOISE = 0.05
_REPEAT_SLACK = 0.25

SeriesAtBatch = tuple[str, float | None]


class MeasuredPairCost(msgspec.Struct, frozen=True, kw_only=True):
    """One pair. Slowdowns are time together / time alone; `packing_saving` is 1 - time together / sum of times alone.

    Where only slowdowns are known the saving is that of any time while both run. `clusters` are ours, `theirs` those
    that came with the data. `against`: the reasons not to believe the row; empty for a sound one.
    """

    job_a: str
    job_b: str
    sharing: str | None
    slowdown_a: float | None
    slowdown_b: float | None
    packing_saving: float | None
    clusters: tuple[int | None, int | None] = (None, None)
    theirs: tuple[str, str] | None = None
    against: tuple[str, ...] = ()


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """A summary of sound pairs of one class, each counted once. Slowdowns are those of both jobs of each pair.

    `grouping` is `ours` or `theirs` (the clusters that came with the data), or `all`.
    """

    grouping: str
    where: str
    pairs: int
    slowdown_median: float | None
    slowdown_mean: float | None
    slowdown_p95: float | None
    slowdown_worst: float | None
    packing_saving_mean: float | None
    packing_saving_median: float | None


def costs(
    pairs: Sequence[MeasuredPair], cluster_of: Callable[[SeriesAtBatch], int | None]
) -> tuple[MeasuredPairCost, ...]:
    """Each pair with its costs, its clusters and the reasons against it, in the order of the data."""
    repeated = _repeated(pairs)
    found = []
    for pair in pairs:
        a, b, saving = _figures(pair)
        cost = MeasuredPairCost(
            job_a=pair.job_a,
            job_b=pair.job_b,
            sharing=pair.sharing,
            slowdown_a=a,
            slowdown_b=b,
            packing_saving=saving,
            clusters=(cluster_of(pair.place_a), cluster_of(pair.place_b)),
            theirs=pair.printed_clusters,
            against=tuple(_objections(pair, (a, b), saving, repeated)),
        )
        found.append(cost)
    return tuple(found)


def summarise(found: Iterable[MeasuredPairCost]) -> tuple[Cost, ...]:
    """All pairs; then, for our clusters and for theirs, within and across them, and cluster by cluster."""
    sound = [pair for pair in found if not pair.against]
    classes: dict[tuple[str, str], list[MeasuredPairCost]] = defaultdict(list)
    for pair in sound:
        classes["all", "all"].append(pair)
        for grouping, (a, b) in (("ours", pair.clusters), ("theirs", pair.theirs or (None, None))):
            if a is not None and b is not None:
                classes[grouping, "within" if a == b else "across"].append(pair)
                low, high = sorted((str(a), str(b)))
                classes[grouping, f"{low} with {high}"].append(pair)
    order = {"all": 0, "within": 1, "across": 2}
    keys = sorted(classes, key=lambda key: (key[0], order.get(key[1], 3), key[1]))
    return tuple(_summary(grouping, where, classes[grouping, where]) for grouping, where in keys)


def _figures(pair: MeasuredPair) -> tuple[float | None, float | None, float | None]:
    """(slowdown of a, slowdown of b, packing saving), from the times where there are some, else from the slowdowns.

    While both run, a second together does 1 / slowdown seconds of each job's work alone.
    """
    if pair.alone_s is not None and pair.together_s is not None:
        a, b = (
            together / alone if alone > 0 else None
            for together, alone in zip(pair.together_s, pair.alone_s, strict=True)
        )
        return a, b, packing_saving(max(pair.together_s), pair.alone_s)
    a, b = (value if value and usable(value) and value > 0 else None for value in (pair.slowdown_a, pair.slowdown_b))
    return a, b, None if a is None or b is None else packing_saving(1.0, (1 / a, 1 / b))


def _objections(
    pair: MeasuredPair,
    slowdowns: tuple[float | None, float | None],
    saving: float | None,
    repeated: dict[Directed, list[float]],
) -> Iterable[str]:
    names = (pair.job_a, pair.job_b)
    for name, value, printed in zip(names, slowdowns, pair.printed_slowdowns or (None, None), strict=True):
        if value is None:
            continue
        if printed is not None and abs(value - printed) > _PRINT_SLACK:
            yield f"{name}: slowdown {value:.4g} by the times, {printed:.4g} printed"
        if value < 1 - _NOISE:
            yield f"{name}: faster together than alone ({value:.4g})"
    if saving is not None and pair.printed_saving is not None and abs(saving - pair.printed_saving) > _PRINT_SLACK:
        yield f"saves {saving:.1%} by the times, {pair.printed_saving:.1%} printed"
    for one, other in (names, names[::-1]):
        values = repeated.get((pair.device_type, pair.sharing, one, other), [])
        if values and max(values) > (1 + _REPEAT_SLACK) * min(values):
            yield f"{one} beside {other}: measured as {min(values):.4g} and as {max(values):.4g}"
        if one == other:
            return


Directed = tuple[str, str | None, str, str]


def _repeated(pairs: Sequence[MeasuredPair]) -> dict[Directed, list[float]]:
    """(device type, sharing, job, its partner) -> every slowdown measured of it, where there are several."""
    found: dict[Directed, list[float]] = defaultdict(list)
    for pair in pairs:
        a, b, _ = _figures(pair)
        for job, partner, value in ((pair.job_a, pair.job_b, a), (pair.job_b, pair.job_a, b)):
            # Beside itself a job has two slowdowns in one run, which is no repetition.
            if value is not None and job != partner:
                found[pair.device_type, pair.sharing, job, partner].append(value)
    return {key: values for key, values in found.items() if len(values) > 1}


def _summary(grouping: str, where: str, pairs: Sequence[MeasuredPairCost]) -> Cost:
    """Summary in which each pair counts once: several measurements of it, or both directions, by their median."""
    slowed: dict[tuple[str, str], list[float]] = defaultdict(list)
    saved: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for pair in pairs:
        for job, partner, value in (pair.job_a, pair.job_b, pair.slowdown_a), (pair.job_b, pair.job_a, pair.slowdown_b):
            if value is not None:
                slowed[job, partner].append(value)
        if pair.packing_saving is not None:
            saved[tuple(sorted((pair.job_a, pair.job_b)))].append(pair.packing_saving)
    slowdowns = [median(values) for values in slowed.values()]
    savings = [median(values) for values in saved.values()]
    return Cost(
        grouping=grouping,
        where=where,
        pairs=len({tuple(sorted((pair.job_a, pair.job_b))) for pair in pairs}),
        slowdown_median=median(slowdowns) if slowdowns else None,
        slowdown_mean=fmean(slowdowns) if slowdowns else None,
        slowdown_p95=order_statistic(slowdowns, 0.95) if slowdowns else None,
        slowdown_worst=max(slowdowns, default=None),
        packing_saving_mean=fmean(savings) if savings else None,
        packing_saving_median=median(savings) if savings else None,
    )
