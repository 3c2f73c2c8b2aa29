"""Workload sets from measured tables: the jobs of which every pair was measured, in both directions.

The tables are those of `gpuq.lab.measured`, of one type of device and one way of sharing. A pair that was not measured is never
taken for one that costs nothing: its jobs are left out, and the set's notes name them. A utilisation that was not measured is
estimated from slowdowns by the sum of utilisations, which the notes say too.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from gpuq.errors import BadInput
from gpuq.lab.evaluate.clean import JoinedPair, clean, combined, combined_pairs, wrong_unit
from gpuq.lab.measured import PairMeasurement, SingleMeasurement
from gpuq.sim.world import Workload
from gpuq.sim.worlds.workload_set import OUT_OF_MEMORY, WorkloadSet

Directed = dict[tuple[str, str], float]


def measured_workloads(
    name: str,
    singles: Sequence[SingleMeasurement],
    pairs: Sequence[PairMeasurement],
    never_fit: Collection[tuple[str, str]] = (),
) -> WorkloadSet:
    """The workloads of these tables. `never_fit` names pairs that ran out of memory together, each once. Raises BadInput."""
    table = clean(singles, pairs)
    measured = combined_pairs(table.pairs)
    device_type, sharing = _one_group(name, measured)
    if (wrong := wrong_unit(measured)) is not None:
        raise BadInput(f"{name}: {wrong}.", fix="Write time together / time alone; 1.0 is no slowdown.")
    slowdowns, jobs = _directed(measured, never_fit)
    closed = _closed(slowdowns)
    if not closed:
        raise BadInput(
            f"{name}: of no job was every pair measured, itself included, in both directions.",
            fix="Measure the missing pairs, or name a file of singles and pairs that has them.",
        )
    profiles = {single.job: single for single in combined(table.singles) if single.device_type == device_type}
    utilizations, notes = _utilizations(closed, profiles, slowdowns)
    names, missing = sorted(utilizations), [job for job in jobs if job not in closed]
    coverage = f"{len(closed)} of {len(jobs)} jobs have every pair measured in both directions"
    coverage += f"; left out: {', '.join(missing)}" if missing else ""
    return WorkloadSet(
        name, device_type, sharing,
        {job: _workload(job, profiles.get(job), utilizations[job]) for job in names},
        {(job, beside): slowdowns[job, beside] for job in names for beside in names},
        (coverage, *notes),
    )  # fmt: skip


def _one_group(name: str, measured: Sequence[JoinedPair]) -> tuple[str, str | None]:
    groups = sorted({pair.group for pair in measured}, key=str)
    if len(groups) != 1:
        names = ", ".join(f"{kind} / {sharing or 'sharing not stated'}" for kind, sharing in groups) or "none"
        raise BadInput(
            f"{name}: a world has one type of device with one way of sharing, these pairs have {len(groups)}: {names}.",
            fix="Keep the rows of one device_type and one sharing.",
        )
    return groups[0]


def _directed(
    measured: Sequence[JoinedPair], never_fit: Collection[tuple[str, str]]
) -> tuple[Directed, tuple[str, ...]]:
    """Slowdowns by (job, beside), and all jobs that pairs speak of."""
    found: dict[tuple[str, str], list[float]] = {}
    jobs = {job for pair in never_fit for job in pair}
    for pair in measured:
        jobs |= {pair.a.job, pair.b.job}
        # A job beside itself has two readings of one thing.
        for row in pair.directed():
            found.setdefault((row.job.job, row.beside.job), []).append(row.slowdown)
    # A partner makes no job faster: less than 1 is noise, and counted it would save device time that no GPU has.
    slowdowns = {key: max(1.0, sum(values) / len(values)) for key, values in found.items()}
    for a, b in never_fit:
        slowdowns[a, b] = slowdowns[b, a] = OUT_OF_MEMORY
    return slowdowns, tuple(sorted(jobs))


def _closed(slowdowns: Directed) -> list[str]:
    """The largest set found of jobs of which every pair was measured: the job with most gaps goes until there are none."""
    jobs = sorted({job for pair in slowdowns for job in pair})
    while jobs:
        gaps = {
            job: sum(((job, other) not in slowdowns) + ((other, job) not in slowdowns) for other in jobs)
            for job in jobs
        }
        worst = max(jobs, key=lambda job: gaps[job])
        if not gaps[worst]:
            break
        jobs.remove(worst)
    return jobs


def _utilizations(
    jobs: Sequence[str], profiles: Mapping[str, SingleMeasurement], slowdowns: Directed
) -> tuple[dict[str, float], list[str]]:
    """Measured, or from the slowdowns where it was not; see `_by_law`."""
    found = {
        job: profile.utilization_pct
        for job in jobs
        if (profile := profiles.get(job)) is not None and profile.utilization_pct is not None
    }
    unknown = [job for job in jobs if job not in found]
    if not unknown:
        return found, []
    for job in unknown:
        own = slowdowns[job, job]
        if math.isfinite(own):
            found[job] = _by_law(own, None)
    guessed = [job for job in unknown if job not in found]
    known = dict(found)
    for job in guessed:
        beside = [
            _by_law((slowdowns[job, other] + slowdowns[other, job]) / 2, known[other])
            for other in known
            if math.isfinite(slowdowns[job, other])
        ]
        if beside:
            found[job] = sorted(beside)[len(beside) // 2]
    notes = [
        f"{len(unknown)} jobs have no measured utilisation: half of what two of it slow each other by, at most 100%, since by "
        "the law of sums two equal jobs take max(1, 2u) times as long"
    ]
    if guessed:
        notes.append(f"median over its other partners by the same law, as two of it do not fit: {', '.join(guessed)}")
    return found, notes


def _by_law(slowdown: float, other: float | None) -> float:
    """Percent. The law of sums: together they take (u + other) times as long; `other` None is a job like itself."""
    share = slowdown * 50 if other is None else slowdown * 100 - other
    return min(100.0, max(1.0, share))


def _workload(job: str, single: SingleMeasurement | None, utilization_pct: float) -> Workload:
    if single is None:
        return Workload(job, job, None, utilization_pct)
    memory = None if single.peak_memory_mib is None else round(single.peak_memory_mib * 2**20)
    powers = {} if single.power_w is None else {single.device_type: single.power_w}
    return Workload(job, single.model, single.batch_size, utilization_pct, memory, single.family, powers=powers)
