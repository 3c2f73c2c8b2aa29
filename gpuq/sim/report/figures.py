"""The figures of one run, each with its unit and its definition.

A definition stands once, in the field's metadata, and is what the page prints. What is not known is None, never 0.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from statistics import fmean
from typing import Any

import numpy as np

from gpuq.core.measuring.slowdown import packing_saving
from gpuq.core.state.attempt import Ending
from gpuq.core.state.job import JobState
from gpuq.settings import Scheduling
from gpuq.sim.record import SimulatedJob, SimulationRun
from gpuq.sim.report.occupancy import DeviceDemand, busy_s, spans

HOUR_S = 3600.0
BUDGET = 1.2
"""The slowdown that a job may suffer before it counts as over budget, unless the caller says otherwise."""
# Feitelson's bounded slowdown: a shorter job counts as this long, or a job of one second that waited ten would count eleven.
_SHORTEST_S = 10.0


def _figure(label: str, unit: str, says: str) -> Any:
    return field(default=None, metadata={"label": label, "unit": unit, "says": says})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFigures:
    """The figures of one candidate in one run, or the medians of several. Units: `s`, `h` (device-hours), `share`, `kWh`."""

    policy: str
    trace: str
    world: str
    seeds: tuple[int, ...]
    devices: int
    jobs: float = _figure("jobs", "count", "Jobs that were submitted.")
    unfinished: float = _figure("unfinished", "count", "Jobs that had not ended when nothing more could happen.")
    left_out: float | None = _figure(
        "left out",
        "share",
        "Device time of the trace's jobs that want more devices than a host has, of all its device time.",
    )
    completion_mean_s: float | None = _figure(
        "completion: mean", "s", "Mean of end minus submission, over the jobs that ended."
    )
    completion_median_s: float | None = _figure("completion: median", "s", "Median of end minus submission.")
    completion_p99_s: float | None = _figure("completion: p99", "s", "99th percentile of end minus submission.")
    wait_mean_s: float | None = _figure(
        "waiting: mean", "s", "Mean of the time between submission and end in which a job did not run."
    )
    wait_median_s: float | None = _figure("waiting: median", "s", "Median of that waiting.")
    wait_p99_s: float | None = _figure("waiting: p99", "s", "99th percentile of that waiting.")
    makespan_s: float | None = _figure("makespan", "s", "Last end minus first submission.")
    slowdown_p50: float | None = _figure(
        "slowdown: median",
        "ratio",
        "A job's slowdown is its time running / the time that the same work takes alone on the same devices.",
    )
    slowdown_p95: float | None = _figure("slowdown: p95", "ratio", "95th percentile of the jobs' slowdowns.")
    slowdown_worst: float | None = _figure("slowdown: worst", "ratio", "The largest slowdown of any job.")
    over_budget: float | None = _figure(
        "over budget", "share", "Jobs whose slowdown was above the budget, of those that ran."
    )
    sharing_jobs: float | None = _figure(
        "jobs that shared", "share", "Jobs that had a partner on a device for some time, of those that ran."
    )
    packing_saving: float | None = _figure(
        "packing saving",
        "share",
        "1 - busy device time / device time of the same work run exclusively. 0.5 would be two jobs on every device that do "
        "not disturb each other; below 0 sharing, or work lost, cost more than it saved.",
    )
    possible_saving: float | None = _figure(
        "possible saving",
        "share",
        "The packing saving that no schedule exceeds whose pairs keep to the limits of the settings: if all jobs were there at "
        "once, and free to change partners at any moment.",
    )
    gpu_hours_used: float | None = _figure(
        "device-hours used", "h", "Time in which a device had a job, summed over devices."
    )
    gpu_hours_idle: float | None = _figure(
        "device-hours idle",
        "h",
        "Time from the first submission to the last end in which a device had no job, summed over devices.",
    )
    gpu_hours_saved: float | None = _figure(
        "device-hours saved",
        "h",
        "Device-hours that the finished work takes run exclusively (duration alone times devices), minus device-hours used. "
        "Work done twice counts against it.",
    )
    energy_kwh: float | None = _figure(
        "energy", "kWh", "What all devices drew, idle ones too, until the last job's end."
    )
    idle_energy_kwh: float | None = _figure("energy: idle", "kWh", "What devices drew without a job.")
    cost: float | None = _figure(
        "cost",
        "money",
        "Energy at `energy_price_per_kwh`, and each hour that a job ended past its deadline at `late_price_per_hour`, doubled "
        "for each step of its priority; both prices from [scheduling] of the settings.",
    )
    utilisation: float | None = _figure("utilisation", "share", "Device-hours used / (devices times makespan).")
    ooms: float | None = _figure("out of memory", "count", "Attempts that ended because a device's memory ran out.")
    ooms_per_1000: float | None = _figure("OOMs per 1,000 jobs", "count", "The same per 1,000 jobs submitted.")
    wrongly_shared: float | None = _figure(
        "wrongly admitted",
        "share",
        "Starts beside a partner after which one of them was slowed beyond the budget of the settings, or ran out of memory; "
        "of all such starts.",
    )
    wrongly_refused: float | None = _figure(
        "wrongly refused",
        "share",
        "Refusals for load, slowdown or memory (once for each job and set of partners' kinds) that the budget and the memory "
        "would have allowed; of all such refusals.",
    )
    failed: float | None = _figure("failed", "count", "Jobs that ended without their work done.")
    late: float | None = _figure(
        "late", "share", "Jobs that ended after their deadline, of those that had one and ended."
    )
    jain: float | None = _figure(
        "fairness between owners",
        "ratio",
        "Jain's index (Jain, Chiu and Hawe 1984) over the owners' mean of completion / duration alone: 1 is all alike, 1/n one "
        "owner has it all. Durations below 10 s count as 10 s (Feitelson's bounded slowdown).",
    )
    unfair: float | None = _figure(
        "worse than a fair share",
        "share",
        "Jobs whose finish-time fairness is above 1. Finish-time fairness (Themis, NSDI 2020) is completion / (duration alone "
        "times contention); contention is the mean number of devices asked for, over the job's life, by all jobs waiting and "
        "running / the devices there are, at least 1.",
    )
    unfair_p99: float | None = _figure("p99 of finish-time fairness", "ratio", "Its 99th percentile over jobs.")
    decision_median_s: float | None = _figure(
        "decision: median", "s", "Real time of one pass: forecasting and deciding."
    )
    decision_p99_s: float | None = _figure("decision: p99", "s", "99th percentile of that.")


MEASURED = tuple(one for one in fields(RunFigures) if one.metadata)
"""The fields that are figures, in the order in which they are shown; `metadata` has label, unit and says."""


def figures(run: SimulationRun, *, budget: float = BUDGET, prices: Scheduling | None = None) -> RunFigures:
    """All figures of one run. `budget`: the slowdown above which a job counts as over budget. `prices` None: the settings'
    defaults.
    """
    ended = [job for job in run.jobs if job.ended_at is not None]
    completions = [job.completion_s for job in ended if job.completion_s is not None]
    waits = [job.wait_s for job in ended if job.wait_s is not None]
    ooms = sum(attempt.ending is Ending.OUT_OF_MEMORY for job in run.jobs for attempt in job.attempts)
    deadlines = [(job.ended_at or 0.0, due) for job in ended if (due := job.arrival.deadline_s) is not None]
    found = run.admissions
    return RunFigures(
        policy=run.policy,
        trace=run.trace,
        world=run.world,
        seeds=(run.seed,),
        devices=run.device_count,
        jobs=len(run.jobs),
        unfinished=len(run.jobs) - len(ended),
        left_out=run.left_out,
        completion_mean_s=_mean(completions),
        completion_median_s=_quantile(completions, 0.5),
        completion_p99_s=_quantile(completions, 0.99),
        wait_mean_s=_mean(waits),
        wait_median_s=_quantile(waits, 0.5),
        wait_p99_s=_quantile(waits, 0.99),
        **_slowdowns(run.jobs, budget),
        **(_device_time(run, ended) if ended else {}),
        ooms=ooms,
        ooms_per_1000=1000 * ooms / len(run.jobs) if run.jobs else None,
        **_fairness(ended, run),
        wrongly_shared=_share(found.wrongly_shared, found.shared),
        wrongly_refused=_share(found.wrongly_refused, found.refused),
        failed=sum(job.state is not JobState.COMPLETED for job in ended),
        late=_share(sum(end > due for end, due in deadlines), len(deadlines)),
        cost=_cost(run.energy_kwh, ended, prices or Scheduling()),
        energy_kwh=run.energy_kwh,
        idle_energy_kwh=run.idle_energy_kwh,
        decision_median_s=_quantile(run.pass_seconds, 0.5),
        decision_p99_s=_quantile(run.pass_seconds, 0.99),
    )


def _slowdowns(jobs: Sequence[SimulatedJob], budget: float) -> dict[str, float | None]:
    ran = [(job, found) for job in jobs if (found := job.slowdown) is not None]
    values = [value for _, value in ran]
    # Floating point may put exactly the budget a little above it.
    over = [value for value in values if value > budget + 1e-9]
    shared = [job for job, _ in ran if any(stretch.beside for attempt in job.attempts for stretch in attempt.stretches)]
    return {
        "slowdown_p50": _quantile(values, 0.5),
        "slowdown_p95": _quantile(values, 0.95),
        "slowdown_worst": max(values, default=None),
        "over_budget": _share(len(over), len(ran)),
        "sharing_jobs": _share(len(shared), len(ran)),
    }


def _device_time(run: SimulationRun, ended: Sequence[SimulatedJob]) -> dict[str, float | None]:
    makespan = max(job.ended_at or 0.0 for job in ended) - min(job.arrival.submit_s for job in ended)
    used_s = busy_s(spans(run.jobs, run.ended_at).values())
    exclusive_s = sum(_exclusive_s(job) for job in run.jobs)
    there_s = run.device_count * makespan
    return {
        "makespan_s": makespan,
        "packing_saving": packing_saving(used_s, [exclusive_s]),
        "gpu_hours_used": used_s / HOUR_S,
        "gpu_hours_idle": max(0.0, there_s - used_s) / HOUR_S,
        "gpu_hours_saved": (exclusive_s - used_s) / HOUR_S,
        "utilisation": used_s / there_s if there_s > 0 else None,
    }


def _exclusive_s(job: SimulatedJob) -> float:
    """Device-seconds that the job's work so far takes alone, without the work that was lost."""
    if job.state is JobState.COMPLETED:
        return job.arrival.duration_s * job.arrival.devices
    useful_s = sum(attempt.work_s - attempt.lost_s for attempt in job.attempts)
    return min(job.arrival.duration_s, max(0.0, useful_s)) * job.arrival.devices


def _fairness(ended: Sequence[SimulatedJob], run: SimulationRun) -> dict[str, float | None]:
    by_owner: dict[str, list[float]] = defaultdict(list)
    rhos = []
    demand = DeviceDemand(run.jobs, run.ended_at)
    for job in ended:
        arrival, took_s = job.arrival, job.completion_s or 0.0
        by_owner[arrival.owner].append(took_s / max(arrival.duration_s, _SHORTEST_S))
        if job.ended_at is not None and took_s > 0 and arrival.duration_s > 0:
            contention = max(1.0, demand.mean(arrival.submit_s, job.ended_at) / run.device_count)
            rhos.append(took_s / (arrival.duration_s * contention))
    means = [fmean(values) for values in by_owner.values()]
    squares = sum(mean * mean for mean in means)
    return {
        # (sum of x)^2 / (n * sum of x^2). With a single owner there is nothing to compare.
        "jain": sum(means) ** 2 / (len(means) * squares) if len(means) > 1 and squares > 0 else None,
        "unfair": _share(sum(rho > 1 + 1e-9 for rho in rhos), len(rhos)),
        "unfair_p99": _quantile(rhos, 0.99),
    }


def _cost(energy_kwh: float | None, ended: Iterable[SimulatedJob], prices: Scheduling) -> float | None:
    if energy_kwh is None:
        return None
    late = (
        max(0.0, job.ended_at - job.arrival.deadline_s) / HOUR_S * 2.0**job.arrival.priority
        for job in ended
        if job.ended_at is not None and job.arrival.deadline_s is not None
    )
    return energy_kwh * prices.energy_price_per_kwh + sum(late) * prices.late_price_per_hour


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def _quantile(values: Sequence[float], q: float) -> float | None:
    return float(np.quantile(values, q)) if values else None


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
