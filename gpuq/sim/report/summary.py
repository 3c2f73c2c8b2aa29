"""Several seeds of each contender as one: medians and ranges, and what order and packing each brought.

Arrives: the figures of each run. Leaves: one `Summary` per contender, in the order in which they were named, the first being
what the others are compared with.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from gpuq.sim.report.figures import MEASURED, RunFigures


@dataclass(frozen=True, slots=True)
class Summary:
    """One contender: the median of each figure over its seeds, the lowest and the highest. None where no seed knew it."""

    median: RunFigures
    low: RunFigures
    high: RunFigures
    runs: tuple[RunFigures, ...]

    @property
    def policy(self) -> str:
        """The contender's name."""
        return self.median.policy

    def to_json(self) -> dict[str, Any]:
        """As JSON types."""
        return {
            "policy": self.policy,
            "median": self.median.to_json(),
            "low": self.low.to_json(),
            "high": self.high.to_json(),
            "runs": [run.to_json() for run in self.runs],
        }


def summarise(runs: Iterable[RunFigures]) -> list[Summary]:
    """One summary per contender, in the order in which contenders first appear."""
    by_policy: dict[str, list[RunFigures]] = {}
    for run in runs:
        by_policy.setdefault(run.policy, []).append(run)
    return [
        Summary(_over(found, median), _over(found, min), _over(found, max), tuple(found))
        for found in by_policy.values()
    ]


def _over(runs: Sequence[RunFigures], take: Any) -> RunFigures:
    values: dict[str, Any] = {}
    for one in MEASURED:
        known = [value for run in runs if (value := getattr(run, one.name)) is not None]
        values[one.name] = take(known) if known else None
    return replace(runs[0], seeds=tuple(seed for run in runs for seed in run.seeds), **values)


def ratio(of: float | None, to: float | None) -> float | None:
    """The first against the second; None where either is not known, or the second is 0."""
    return of / to if of is not None and to else None
