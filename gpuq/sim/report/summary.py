"""Several seeds of each candidate as one: the median and range of each figure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any

from gpuq.sim.report.figures import MEASURED, RunFigures


@dataclass(frozen=True, slots=True)
class Summary:
    """One candidate: median, lowest and highest of each figure over its seeds. None where no seed has the figure."""

    median: RunFigures
    low: RunFigures
    high: RunFigures
    runs: tuple[RunFigures, ...]

    @property
    def policy(self) -> str:
        """The candidate's name."""
        return self.median.policy

    def to_json(self) -> dict[str, Any]:
        """As JSON types."""
        figures = {"median": self.median, "low": self.low, "high": self.high}
        return {
            "policy": self.policy,
            **{name: asdict(found) for name, found in figures.items()},
            "runs": [asdict(run) for run in self.runs],
        }


def summarise(runs: Iterable[RunFigures]) -> list[Summary]:
    """One summary per candidate, in the order in which candidates first appear."""
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
    """`of` / `to`; None where either is not known, or `to` is 0."""
    return of / to if of is not None and to else None
