"""Everything that the table, the JSON and the page are made from."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from gpuq.sim.report.figures import MEASURED
from gpuq.sim.report.headline import headline
from gpuq.sim.report.plot_data import PlotData
from gpuq.sim.report.summary import Summary, ratio


@dataclass(frozen=True)
class SimulationReport:
    """One comparison. `main` is the candidate that it is about, `baseline` what the others are compared with; `chain` leads
    from the one to the other: names, and what each adds to the one before it. `plot_data` are of the first seed. `notes` hold
    for all runs, `notes_of_runs` for some; `faults` say which candidates were replaced by the default policy.
    """

    title: str
    main: str
    baseline: str
    budget: float
    summaries: tuple[Summary, ...]
    plot_data: tuple[PlotData, ...]
    chain: tuple[tuple[str, str], ...] = ()
    faults: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    notes_of_runs: tuple[str, ...] = ()

    def summary(self, policy: str) -> Summary:
        """The summary of one candidate."""
        return next(one for one in self.summaries if one.policy == policy)

    @property
    def headline(self) -> list[str]:
        """The result in sentences."""
        found = headline(self.summary(self.main).median, self.summary(self.baseline).median, self.budget)
        return [*(f"{fault}." for fault in self.faults), *found]

    @property
    def steps(self) -> list[ChainStep]:
        """What each step of the chain brought: one for each candidate after the first."""
        chain = [(self.summary(name).median, adds) for name, adds in self.chain]
        return [
            ChainStep(
                after.policy,
                before.policy,
                adds,
                ratio(after.completion_mean_s, before.completion_mean_s),
                ratio(after.wait_mean_s, before.wait_mean_s),
            )
            for (before, _), (after, adds) in pairwise(chain)
        ]


@dataclass(frozen=True, slots=True)
class ChainStep:
    """One candidate against the one before it in the chain: mean completion and waiting as ratios, None if not known."""

    policy: str
    before: str
    adds: str
    completion: float | None
    wait: float | None


def to_json(report: SimulationReport) -> dict[str, Any]:
    """As JSON types: for each candidate medians, ranges and every run; and the definition of each figure."""
    return {
        "title": report.title,
        "headline": report.headline,
        "main": report.main,
        "baseline": report.baseline,
        "slowdown_budget": report.budget,
        "contenders": [summary.to_json() for summary in report.summaries],
        "steps": [
            {
                "policy": step.policy,
                "adds": step.adds,
                "before": step.before,
                "completion_ratio": step.completion,
                "wait_ratio": step.wait,
            }
            for step in report.steps
        ],
        "figures": {one.name: {"unit": one.metadata["unit"], "says": one.metadata["says"]} for one in MEASURED},
        "notes": [*report.notes, *report.notes_of_runs],
    }
