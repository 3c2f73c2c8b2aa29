"""May this job have this device now? The rules are tried in a fixed order, and the first that refuses gives the verdict.

What is not known blocks sharing: a job or a resident without a forecast, a reading that is missing or too old. Memory counts as
the larger of promised and measured, foreign processes included. A resident is never stopped or slowed beyond its budget for a
newcomer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.attempt import Attempt
from gpuq.core.state.constraints import DeviceConstraints, had
from gpuq.core.state.device import Device, HostId, NoStarts, Reading
from gpuq.core.state.forecast import LEARNED, MEASURED, RULE, Forecast, PairCost
from gpuq.core.state.job import Job, JobId, KindId, Sharing
from gpuq.core.state.verdict import Numbers, Rule, Verdict


@dataclass(frozen=True)
class DeviceSnapshot:
    """A device with its residents and its reading (None when missing or too old). `reserved_for`: the other job that it is
    kept for; `drained`: why an operator keeps new jobs off its host; `no_starts`: why the host itself starts none."""

    device: Device
    residents: tuple[Attempt, ...]
    reading: Reading | None
    reserved_for: JobId | None = None
    drained: str | None = None
    no_starts: NoStarts | None = None

    @property
    def unusable(self) -> Rule | None:
        """The rule by which it admits no job whatever; None where it may admit one."""
        if self.drained is not None:
            return Rule.DRAINED
        if self.reading is None:
            return Rule.STALE_READING
        if self.no_starts is not None:
            return Rule.NO_STARTS
        return None if self.reading.unwell is None else Rule.UNWELL

    def promised_here(self, attempt: Attempt) -> int:
        """The memory promised to one resident on this device."""
        return attempt.promised[attempt.devices.index(self.device.id)]

    @property
    def is_empty(self) -> bool:
        """Whether nothing of gpuq's is there. The last reading may still count the memory of an attempt that has just ended."""
        if self.residents or self.reading is None:
            return not self.residents
        used, foreign = self.reading.used_memory, self.reading.foreign_memory
        return used is None or foreign is None or used <= foreign

    @cached_property
    def emptied(self) -> DeviceSnapshot:
        """The device once all that is gpuq's has gone; processes that gpuq did not start stay."""
        if self.is_empty:
            return self
        reading = self.reading and replace(self.reading, used_memory=self.reading.foreign_memory)
        return replace(self, residents=(), reading=reading)

    @cached_property
    def kinds(self) -> tuple[KindId, ...]:
        """The kinds of the residents, as a question names them."""
        return tuple(sorted(resident.kind for resident in self.residents))

    @cached_property
    def committed_memory(self) -> int:
        """Bytes that are in use or promised: per resident the larger of promised and live, plus foreign use."""
        ours = sum(max(self.promised_here(a), a.live_memory or 0) for a in self.residents)
        if self.reading is None:
            return ours
        return max(ours + (self.reading.foreign_memory or 0), self.reading.used_memory or 0)

    @cached_property
    def committed_utilization(self) -> float:
        """Percent that residents and foreign processes use; infinite when a resident's need is not known."""
        foreign = (self.reading.foreign_utilization_pct if self.reading else None) or 0.0
        peaks = [0.0 if a.opened and a.idle_s else a.forecast.peak_utilization_pct for a in self.residents]
        return foreign + sum(float("inf") if peak is None else peak for peak in peaks)


def admit(job: Job, forecast: Forecast, snapshot: DeviceSnapshot, limits: Limits) -> Verdict:
    """The verdict on one job and one device."""
    refused = refusal(job, forecast, snapshot, limits)
    if refused is not None:
        return refused
    judge = _admit_beside if snapshot.residents else _admit_alone
    return judge(job, forecast, snapshot, limits)


def refusal(job: Job, forecast: Forecast, snapshot: DeviceSnapshot, limits: Limits) -> Verdict | None:
    """The verdict if the job is refused, else None. Cheaper than `admit`, which also gives the numbers of an admission."""
    other = None if job.constraints is None else refused_by(job.constraints, snapshot.device)
    unusable = other or _refuse_unusable(snapshot, limits)
    if unusable is not None:
        return unusable
    if snapshot.residents:
        return (
            _refuse_exclusive(job, forecast, snapshot)
            or _refuse_memory(job, forecast, snapshot, limits)
            or _refuse_load(job, forecast, snapshot, limits)
            or _refuse_pairs(job, forecast, snapshot, limits)
        )
    alone = _admit_alone(job, forecast, snapshot, limits)
    return None if alone.admitted else alone


def refusal_in_pause(job: Job, forecast: Forecast, snapshot: DeviceSnapshot, limits: Limits) -> Verdict | None:
    """The verdict if the device refuses the job even while its residents stand still, else None. Their accounts are not looked
    at."""
    refused = (
        (None if job.constraints is None else refused_by(job.constraints, snapshot.device))
        or _refuse_unusable(snapshot, limits)
        or _refuse_exclusive(job, forecast, snapshot)
        or _refuse_memory(job, forecast, snapshot, limits)
    )
    unsafe = next((cost for cost in forecast.pairs if cost.unsafe), None)
    if refused is None and unsafe is not None:
        return _refused(Rule.UNSAFE_PAIR, snapshot, (("beside", unsafe.beside),))
    return refused


def needed_memory(job: Job, forecast: Forecast) -> int | None:
    """Bytes to promise to this job: what its submitter declared, else the forecast's upper bound, else unknown."""
    return job.declared_memory if job.declared_memory is not None else forecast.upper_memory_bytes


def may_share(job: Job, forecast: Forecast) -> bool:
    """Whether this job may have a partner at all: allowed by its submitter and its past, and known well enough."""
    known = forecast.peak_utilization_pct is not None and needed_memory(job, forecast) is not None
    return known and job.sharing is Sharing.AUTO and not job.alone


def fits_ever(
    memory: int | None,
    count: int,
    devices: Sequence[Device],
    hosts: int = 1,
    constraints: DeviceConstraints | None = None,
) -> Verdict | None:
    """None if so many empty hosts could run a job of `count` devices in all that meet the constraints, equally many of each, with
    `memory` bytes on each; else why not, with the missing number."""
    if not devices:
        return None
    if constraints is not None:
        if lacking := constraints.lacking(devices):
            return Verdict(False, Rule.NEVER_FITS, None, lacking)
        devices = [device for device in devices if constraints.unmet(device) is None]
    by_host: dict[HostId, list[Device]] = {}
    for device in devices:
        by_host.setdefault(device.host, []).append(device)
    if hosts > len(by_host):
        return Verdict(False, Rule.NEVER_FITS, None, (("wanted_hosts", hosts), ("hosts", len(by_host))))
    per_host = count // hosts
    most = sorted(map(len, by_host.values()))[-hosts]
    if per_host > most:
        wanted_hosts = (("wanted_hosts", hosts),) if hosts > 1 else ()
        numbers: Numbers = (*wanted_hosts, ("wanted_devices", per_host), ("devices_per_host", most))
        return Verdict(False, Rule.NEVER_FITS, None, numbers)
    if memory is None:
        return None
    # The hosts whose `per_host`-th largest device is the largest have the best room for the job.
    on_hosts = (sorted(found, key=lambda d: -d.total_memory) for found in by_host.values() if len(found) >= per_host)
    largest = sorted((found[per_host - 1] for found in on_hosts), key=lambda device: -device.total_memory)[hosts - 1]
    missing = memory - largest.total_memory
    if missing <= 0:
        return None
    numbers = (("needed_bytes", memory), ("largest_device_bytes", largest.total_memory), ("missing_bytes", missing))
    return Verdict(False, Rule.NEVER_FITS, largest.id, numbers)


def refused_by(constraints: DeviceConstraints, device: Device) -> Verdict | None:
    """The verdict on a device that does not meet the constraints; None on one that does."""
    name = constraints.unmet(device)
    if name is None:
        return None
    has = "has_bytes" if name == "least_memory" else "has"
    return Verdict(False, Rule.CONSTRAINTS, device.id, (*constraints.asked(name), (has, had(device, name))))


def _refuse_unusable(snapshot: DeviceSnapshot, limits: Limits) -> Verdict | None:
    if snapshot.drained is not None:
        return _refused(Rule.DRAINED, snapshot, (("why", snapshot.drained),))
    reading = snapshot.reading
    if reading is None or reading.used_memory is None or reading.foreign_memory is None:
        return _refused(Rule.STALE_READING, snapshot, (("stale_after_s", limits.stale_after_s),))
    if snapshot.no_starts is not None:
        return _refused(Rule.NO_STARTS, snapshot, numbers_of_no_starts(snapshot))
    if reading.unwell is not None:
        return _refused(Rule.UNWELL, snapshot, (("fault", reading.unwell),))
    if snapshot.reserved_for is not None:
        return _refused(Rule.RESERVED, snapshot, (("reserved_for", snapshot.reserved_for),))
    if len(snapshot.residents) >= limits.residents_per_device:
        return _refused(
            Rule.RESOURCES, snapshot, (("residents", len(snapshot.residents)), ("limit", limits.residents_per_device))
        )
    return None


def numbers_of_no_starts(snapshot: DeviceSnapshot) -> Numbers:
    """The numbers of a verdict on a device whose host starts no job."""
    no_starts = snapshot.no_starts
    assert no_starts is not None
    numbers: Numbers = (("host", snapshot.device.host), ("why", no_starts.why), ("since_at", no_starts.since_at))
    return numbers if no_starts.again_at is None else (*numbers, ("again_at", no_starts.again_at))


def _admit_alone(job: Job, forecast: Forecast, snapshot: DeviceSnapshot, limits: Limits) -> Verdict:
    total, committed = snapshot.device.total_memory, snapshot.committed_memory
    needed, tolerated = needed_memory(job, forecast), tolerated_memory(job, forecast, snapshot.device, limits)
    numbers = (("needed_bytes", needed), ("committed_bytes", committed), ("total_bytes", total))
    if committed <= tolerated:
        return Verdict(True, Rule.FIRST_RUN_EXCLUSIVE if needed is None else Rule.IDLE, snapshot.device.id, numbers)
    # What is not foreign is memory of an attempt that has just ended.
    if needed is None and snapshot.is_empty:
        return _refused(Rule.FOREIGN_PROCESS, snapshot, (*numbers, ("headroom_bytes", tolerated)))
    return _refused(Rule.PREDICTED_MEMORY, snapshot, numbers)


def tolerated_memory(job: Job, forecast: Forecast, device: Device, limits: Limits) -> int:
    """Bytes that foreign processes may use where this job starts alone; below 0 where it never fits."""
    total = device.total_memory
    if job.declared_memory is not None:
        return total - job.declared_memory
    if forecast.upper_memory_bytes is not None:
        # Alone, a forecast beyond the device refuses nothing: the job may have all there is. A declared need does refuse.
        return max(0, total - forecast.upper_memory_bytes)
    # Foreign memory on a GPU is mostly another training. That of CPU cores is the machine's, and any desktop uses some of it.
    return total // 2 if device.backend == "cpu" else int(total * limits.memory_headroom)


def _refuse_exclusive(job: Job, forecast: Forecast, snapshot: DeviceSnapshot) -> Verdict | None:
    if snapshot.device.sharing == "exclusive":
        return _refused(Rule.EXCLUSIVE, snapshot, (("compute_mode", "exclusive"),))
    if job.alone or job.sharing is Sharing.NEVER:
        return _refused(Rule.EXCLUSIVE, snapshot, (("newcomer", str(job.id)),))
    if not may_share(job, forecast):
        return _refused(
            Rule.FIRST_RUN_EXCLUSIVE, snapshot, (("newcomer", str(job.id)), ("evidence", forecast.evidence))
        )
    for resident in snapshot.residents:
        if not resident.shares:
            rule = Rule.EXCLUSIVE if resident.forecast.known else Rule.FIRST_RUN_EXCLUSIVE
            return _refused(
                rule, snapshot, (("resident", str(resident.id.job)), ("evidence", resident.forecast.evidence))
            )
    return None


def _refuse_memory(job: Job, forecast: Forecast, snapshot: DeviceSnapshot, limits: Limits) -> Verdict | None:
    needed, total = needed_memory(job, forecast), snapshot.device.total_memory
    if needed is not None and needed + snapshot.committed_memory + int(total * limits.memory_headroom) <= total:
        return None
    return _refused(Rule.PREDICTED_MEMORY, snapshot, sharing_numbers(job, forecast, snapshot, limits))


def _refuse_load(job: Job, forecast: Forecast, snapshot: DeviceSnapshot, limits: Limits) -> Verdict | None:
    reading = snapshot.reading
    if reading is not None and reading.foreign_utilization_pct is None and reading.foreign_memory:
        return _refused(
            Rule.FOREIGN_PROCESS, snapshot, (("foreign_bytes", reading.foreign_memory), ("foreign_pct", None))
        )
    peak = forecast.peak_utilization_pct
    if _load_fits(job, forecast, snapshot, limits):
        return None
    if _evidence_allows(job, forecast, snapshot, limits):
        return None
    numbers = (
        ("newcomer_pct", peak),
        ("committed_pct", snapshot.committed_utilization),
        ("foreign_pct", reading.foreign_utilization_pct if reading else None),
        ("sum_pct", None if peak is None else peak + snapshot.committed_utilization),
        ("limit_pct", _load_limit(job, snapshot, limits)),
        ("residents", " ".join(str(a.id.job) for a in snapshot.residents)),
    )
    return _refused(Rule.PREDICTED_LOAD, snapshot, numbers)


def _load_fits(job: Job, forecast: Forecast, snapshot: DeviceSnapshot, limits: Limits) -> bool:
    peak = forecast.peak_utilization_pct
    return peak is not None and peak + snapshot.committed_utilization <= _load_limit(job, snapshot, limits)


def _load_limit(job: Job, snapshot: DeviceSnapshot, limits: Limits) -> float:
    budgets = (job.max_slowdown, *(a.max_slowdown for a in snapshot.residents))
    return min(load_limit(budget, limits, len(budgets)) for budget in budgets)


def load_limit(max_slowdown: float | None, limits: Limits, together: int) -> float:
    """Percent that the utilisations of so many jobs may add up to beside one with this budget, where no slowdown was measured.

    Jobs that need more than the whole device together share what there is: at a sum of S percent each takes S/100 times as long.
    On the 144 pairs of `alnair_mps_pairs` measured in both directions that is right in all cases at budgets from 1.1 to 1.2, and
    admits 94 to 100% of the pairs that keep them; a sum of 100 admits 67 to 82%. With the objective `saving` the same law
    holds: n jobs that each take S/100 times as long save 1 - S / (100 n).
    """
    own = budget_of(max_slowdown, limits)
    return limits.utilization_pct * (together * (1 - limits.least_saving) if own is None else own)


def _evidence_allows(job: Job, forecast: Forecast, snapshot: DeviceSnapshot, limits: Limits) -> bool:
    """Whether slowdowns that were measured, or learned from others, allow this pair though the load rule would not.

    They were measured of two jobs, so they say nothing about three, and nothing about what foreign processes do.
    """
    if (
        len(snapshot.residents) != 1
        or len(forecast.pairs) != 1
        or (snapshot.reading and snapshot.reading.foreign_utilization_pct)
    ):
        return False
    cost, resident = forecast.pairs[0], snapshot.residents[0]
    if cost.evidence == RULE or cost.beside != resident.kind:
        return False
    if limits.objective == "saving" and (cost.saving or 0.0) < limits.least_saving:
        return False
    for expected, own in ((cost.newcomer, job.max_slowdown), (cost.resident, resident.max_slowdown)):
        budget = budget_of(own, limits)
        if expected is None or (budget is not None and expected > budget):
            return False
    return True


def _refuse_pairs(job: Job, forecast: Forecast, snapshot: DeviceSnapshot, limits: Limits) -> Verdict | None:
    """Slowdowns with evidence of both kinds, where there are any, against the budget of each job that would be slowed; then the
    risk of the pair, whatever its evidence.
    """
    for cost in forecast.pairs:
        if cost.unsafe:
            return _refused(Rule.UNSAFE_PAIR, snapshot, (("beside", cost.beside),))
        if cost.evidence in {MEASURED, LEARNED}:
            refused = _refuse_slowdown(job, cost, snapshot, limits)
            if refused is not None:
                return refused
            if limits.objective == "saving" and cost.saving is not None and cost.saving < limits.least_saving:
                saving: Numbers = (("saving", cost.saving), ("least_saving", limits.least_saving))
                numbers = (("beside", cost.beside), *saving, ("evidence", cost.evidence))
                return _refused(Rule.PACKING_SAVING, snapshot, numbers)
    risk = pair_risk(job, forecast, snapshot, limits)
    if risk is not None and risk > limits.risk:
        return _refused(Rule.SLOWDOWN_RISK, snapshot, sharing_numbers(job, forecast, snapshot, limits))
    return None


def pair_risk(job: Job, forecast: Forecast, snapshot: DeviceSnapshot, limits: Limits) -> float | None:
    """The highest risk of the pairs that the newcomer makes with the residents; None: not known."""
    own = budget_of(job.max_slowdown, limits)
    risks = [
        cost.risk(own, budget_of(resident.max_slowdown, limits))
        for cost in forecast.pairs
        for resident in snapshot.residents
        if resident.kind == cost.beside
    ]
    return max((risk for risk in risks if risk is not None), default=None)


def _refuse_slowdown(job: Job, cost: PairCost, snapshot: DeviceSnapshot, limits: Limits) -> Verdict | None:
    slowdowns = [
        (cost.newcomer, job.max_slowdown, ("beside", cost.beside), "newcomer_slowdown"),
        *(
            (cost.resident, resident.max_slowdown, ("resident", str(resident.id.job)), "resident_slowdown")
            for resident in snapshot.residents
            if resident.kind == cost.beside
        ),
    ]
    for slowdown, own, other, name in slowdowns:
        budget = budget_of(own, limits)
        if slowdown is not None and budget is not None and slowdown > budget:
            numbers: Numbers = (other, (name, slowdown), ("budget", budget), ("evidence", cost.evidence))
            return _refused(Rule.SLOWDOWN_BUDGET, snapshot, numbers)
    return None


def budget_of(own: float | None, limits: Limits) -> float | None:
    """The budget that counts: with the objective `saving`, only one that the job itself came with."""
    return own if limits.objective == "saving" else _budget(own, limits)


def _budget(own: float | None, limits: Limits) -> float:
    return limits.max_slowdown if own is None else own


def _admit_beside(job: Job, forecast: Forecast, snapshot: DeviceSnapshot, limits: Limits) -> Verdict:
    numbers = sharing_numbers(job, forecast, snapshot, limits)
    if _load_fits(job, forecast, snapshot, limits):
        return Verdict(True, Rule.FITS, snapshot.device.id, numbers)
    cost = forecast.pairs[0]
    known: Numbers = (("resident_slowdown", cost.resident), ("saving", cost.saving))
    return Verdict(True, Rule.KNOWN_PAIR, snapshot.device.id, (*numbers, *known))


def sharing_numbers(job: Job, forecast: Forecast, snapshot: DeviceSnapshot, limits: Limits) -> Numbers:
    """What a verdict on two that share says of them."""
    total = snapshot.device.total_memory
    return (
        ("newcomer_pct", forecast.peak_utilization_pct),
        ("committed_pct", snapshot.committed_utilization),
        ("limit_pct", _load_limit(job, snapshot, limits)),
        ("needed_bytes", needed_memory(job, forecast)),
        ("committed_bytes", snapshot.committed_memory),
        ("headroom_bytes", int(total * limits.memory_headroom)),
        ("total_bytes", total),
        ("expected_slowdown", forecast.expected_slowdown),
        ("upper_slowdown", forecast.upper_slowdown),
        ("slowdown_evidence", forecast.pair_evidence),
        ("budget", _budget(job.max_slowdown, limits)),
        ("risk", pair_risk(job, forecast, snapshot, limits)),
        ("most_risk", limits.risk),
        ("beside", " ".join(str(a.id.job) for a in snapshot.residents)),
        ("sharing", snapshot.device.sharing),
    )


def _refused(rule: Rule, snapshot: DeviceSnapshot, numbers: Numbers) -> Verdict:
    return Verdict(False, rule, snapshot.device.id, numbers)
