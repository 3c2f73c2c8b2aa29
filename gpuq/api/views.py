"""Makes the API's answers (`contract/schema.py`) from rows of the record and the live view. Pure; unknown stays null."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import asdict, replace

from gpuq.adapters.store.row_types import ArrayRow, AttemptRow, Entry, JobRow, LineRow
from gpuq.api.contract.schema import DeviceView, EventView, ResidentView
from gpuq.api.contract.schema_jobs import (
    ArrayLine,
    AttemptView,
    ExpectedStart,
    ForecastView,
    JobLine,
    JobView,
    VerdictView,
)
from gpuq.core.scheduling.admit import refused_by
from gpuq.core.state.attempt import StopReason
from gpuq.core.state.constraints import DeviceConstraints
from gpuq.core.state.device import Device, Vitals
from gpuq.core.state.device_names import DeviceNames, natural_order
from gpuq.core.state.job import ENDED, WAITING, JobId, JobState
from gpuq.format import expected_start as start_text
from gpuq.format import rfc3339, rfc3339_or_none
from gpuq.messages.codec import plain
from gpuq.messages.live import DeviceStatus, LiveView, ResidentStatus
from gpuq.messages.outcome import UNMEASURED
from gpuq.messages.verdicts import sentence, title

STATES: dict[JobState, str] = {
    JobState.PENDING: "It waits for the dispatcher to look at it.",
    JobState.HELD: "It is held; `gpuq release` lets it go on.",
    JobState.STARTING: "It is being started.",
    JobState.RUNNING: "It runs.",
    JobState.COMPLETING: "It is being stopped.",
    JobState.COMPLETED: "It completed.",
    JobState.FAILED: "It failed.",
    JobState.CANCELLED: "It was cancelled.",
    JobState.TIMEOUT: "It reached its time limit.",
    JobState.OUT_OF_MEMORY: "It ran out of memory.",
    JobState.PREEMPTED: "It was stopped for a job that goes before it.",
    JobState.NODE_FAIL: "Its host or its device went away.",
}

# What a `ResidentView` shows of a `ResidentStatus` as it is, and a `DeviceView` of a `DeviceStatus` and of its `Vitals`.
_RESIDENT_KEYS = (
    "job", "attempt", "memory_bytes", "promised_bytes", "utilization_pct", "steps", "rate", "slowdown", "expected_slowdown",
)  # fmt: skip
_DEVICE_KEYS = (
    "id", "index", "host", "backend", "total_memory_bytes", "sharing", "features", "used_memory_bytes", "promised_memory_bytes",
    "foreign_memory_bytes", "utilization_pct", "unwell", "drained", "reserved_for", "processes_visible",
)  # fmt: skip
_VITAL_KEYS = ("power_watts", "energy_joules", "temperature_c", "sm_activity_pct", "memory_bandwidth_pct")


def forecast_view(plain: Mapping[str, Any] | None, total_memory: int | None) -> ForecastView | None:
    """A plain Forecast, or None for none. No job uses more than the device has, so its bound ends at `total_memory`, where known.

    A likeliest peak beyond the device stays as it is, and its bound with it: such a job is expected to run out of memory.
    """
    if not plain:
        return None
    values = {key: plain.get(key) for key in ForecastView.__struct_fields__}
    upper = values["upper_memory_bytes"]
    if upper is not None and total_memory is not None:
        values["upper_memory_bytes"] = min(upper, max(total_memory, values["peak_memory_bytes"] or 0))
    return ForecastView(**values)


def verdict_view(plain: Mapping[str, Any] | None, names: DeviceNames) -> VerdictView | None:
    """A plain Verdict, its pairs of numbers as an object."""
    if not plain:
        return None
    numbers = dict(plain.get("numbers") or ())
    rule, device = str(plain["rule"]), plain.get("device")
    name = None if device is None else names.of(device)
    return VerdictView(
        admitted=bool(plain["admitted"]),
        rule=rule,
        numbers=numbers,
        device=device,
        device_name=name,
        sentence=sentence(rule, numbers, name),
    )


def excluded(constraints: DeviceConstraints | None, devices: Iterable[Device], names: DeviceNames) -> list[VerdictView]:
    """The verdicts on the devices that do not meet these constraints."""
    if constraints is None:
        return []
    verdicts = (refused_by(constraints, device) for device in devices)
    return [view for verdict in verdicts if verdict is not None and (view := verdict_view(plain(verdict), names))]


def attempt_view(row: AttemptRow, names: DeviceNames) -> AttemptView:
    """One attempt."""
    launched = row.launch.get("attempt") or {}
    return AttemptView(
        number=row.number,
        host=row.host,
        device=row.devices[0] if row.devices else None,
        devices=list(row.devices),
        device_names=[names.of(device) for device in row.devices],
        promised_memory_bytes=list(launched.get("promised") or ()),
        shares=launched.get("shares"),
        opened_memory_bytes=row.opened_memory,
        launched_at=rfc3339(row.launched_at),
        started_at=rfc3339_or_none(row.started_at),
        ended_at=rfc3339_or_none(row.ended_at),
        ending=row.ending,
        exit_code=row.exit_code,
        reason=row.reason,
        log_path=row.log_path,
        model_version=row.model_version,
        forecast=forecast_view(launched.get("forecast"), names.memory_of(row.devices)),
        verdict=verdict_view(row.launch.get("verdict"), names),
        actual=row.actual or UNMEASURED,
    )


def job_line(
    row: JobRow | LineRow,
    start: Sequence[AttemptRow],
    live: LiveView | None,
    names: DeviceNames,
    position: int | None = None,
    forecast: Mapping[str, Any] | None = None,
) -> JobLine:
    """One job in a list. `start` has the attempts of its last start, `forecast` is the one of now for a job that waits."""
    return JobLine(**_line(row, start, live, names, position, forecast))


def array_line(
    row: ArrayRow,
    waiting: LineRow | None,
    live: LiveView | None,
    names: DeviceNames,
    position: int | None = None,
) -> ArrayLine:
    """One array in a list; `waiting` is its first task that waits, at this `position`."""
    record = row.record
    asked, wanted = record.submission, record.submission.array
    assert wanted is not None, f"{row.id} is no array"
    verdict = verdict_view(waiting.verdict, names) if waiting else None
    return ArrayLine(
        id=row.id,
        tasks=wanted.tasks,
        count=wanted.count,
        at_once=wanted.at_once,
        states=row.states,
        first={state: wanted.numbers[job - row.id] for state, job in row.first.items()},
        name=asked.name,
        owner=record.owner,
        project=asked.project,
        command=list(asked.command),
        params=list(wanted.params),
        priority=(waiting.record.submission if waiting else asked).priority,
        submitted_at=rfc3339(record.submitted_at),
        submitted_at_unix=record.submitted_at,
        reason=(waiting.reason or (verdict.rule if verdict else None)) if waiting else None,
        verdict=verdict,
        position=position,
        expected_start=job_start(live, waiting.id) if waiting else None,
    )


def last_start(row: JobRow | LineRow, attempts: Sequence[AttemptRow]) -> list[AttemptRow]:
    """The attempts of the job's last start among these: one on each of its hosts."""
    return [attempt for attempt in attempts if attempt.number >= row.attempt]


def job_view(
    row: JobRow,
    attempts: Sequence[AttemptRow],
    live: LiveView | None,
    names: DeviceNames,
    position: int | None,
    forecast: Mapping[str, Any] | None,
) -> JobView:
    """One job with all that is known. `forecast` is the one of now, used while the job has no attempt of its own."""
    asked = row.record.submission
    return JobView(
        **_line(row, last_start(row, attempts), live, names, position, forecast),
        cwd=asked.cwd,
        script=asked.script,
        script_sha256=asked.script_sha256,
        git_sha=asked.git_sha,
        git_dirty=asked.git_dirty,
        snapshot_folder=asked.snapshot.folder if asked.snapshot else None,
        snapshot_taken_from=asked.snapshot.taken_from if asked.snapshot else None,
        synced=asked.sync is not None,
        signal=asked.signal,
        signal_before_s=asked.signal_before_s,
        interactive=asked.interactive,
        environment=sorted(asked.env),
        umask=asked.umask,
        declared_memory_bytes=asked.gpu_memory,
        requeue_on_node_fail=asked.requeue_on_node_fail,
        constraints=asked.constraints
        and replace(asked.constraints, devices=tuple(map(names.of, asked.constraints.devices))),
        most_gpus=asked.most_gpus,
        deadline_at=rfc3339_or_none(asked.deadline_at),
        deadline_at_unix=asked.deadline_at,
        blink=asked.blink,
        idle_ok=asked.idle_ok,
        no_pause=asked.no_pause,
        lend_cores=asked.lend_cores,
        alone=row.alone,
        retried=list(row.waits.retried),
        raised_memory_bytes=None if row.waits.memory == asked.gpu_memory else row.waits.memory,
        attempts=[attempt_view(attempt, names) for attempt in attempts],
    )


def _line(
    row: JobRow | LineRow,
    start: Sequence[AttemptRow],
    live: LiveView | None,
    names: DeviceNames,
    position: int | None,
    forecast: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """The fields that a list and a single job have in common. While a job waits, its past attempts do not say where it is."""
    asked = row.record.submission
    last = start[0] if start else None
    placed = None if row.state in WAITING else last
    everywhere = start if placed else ()
    resident = live.resident(row.id, row.attempt) if live is not None and row.state not in WAITING | ENDED else None
    launched = (placed.launch.get("attempt") or {}) if placed else {}
    expected = launched.get("forecast") or forecast
    devices = [device for attempt in everywhere for device in attempt.devices]
    device_names = [names.of(device) for device in devices]
    started = max_of_all([attempt.started_at for attempt in everywhere])
    ended = max_of_all([attempt.ended_at for attempt in everywhere]) or (
        row.state_since if row.state in ENDED else None
    )
    decisive = _decisive(everywhere)
    reason = row.reason or (decisive.reason if decisive else None) or None
    if row.state in WAITING and row.verdict:
        reason = row.reason or str(row.verdict["rule"])
    return {
        "id": row.id,
        "name": asked.name,
        "state": row.state,
        "reason": reason,
        "owner": row.record.owner,
        "project": asked.project,
        "kind": row.record.kind,
        "command": list(asked.command),
        "priority": asked.priority,
        "share": asked.share.value,
        "max_slowdown": asked.max_slowdown,
        "gpus": asked.gpus,
        "wanted_hosts": asked.hosts,
        "time_limit_s": asked.time_limit_s,
        "preemptible": asked.preemptible,
        "notify": None if asked.notify is None else list(asked.notify),
        "submitted_at": rfc3339(row.record.submitted_at),
        "submitted_at_unix": row.record.submitted_at,
        "state_since": rfc3339(row.state_since),
        "state_since_unix": row.state_since,
        "started_at": rfc3339_or_none(started),
        "started_at_unix": started,
        "ended_at": rfc3339_or_none(ended),
        "ended_at_unix": ended,
        "cancel_requested": row.cancel_requested,
        "attempt": row.attempt,
        "host": placed.host if placed else None,
        "hosts": [attempt.host for attempt in everywhere],
        "device": next(iter(devices), None),
        "device_name": next(iter(device_names), None),
        "devices": devices,
        "device_names": device_names,
        "partners": list(resident.partners) if resident else [],
        "exit_code": decisive.exit_code if decisive else None,
        "log_path": last.log_path if last else None,
        "after": list(asked.after),
        "retry": list(asked.retry),
        "singleton": asked.singleton,
        "begin_at": rfc3339_or_none(asked.begin_at),
        "begin_at_unix": asked.begin_at,
        "snapshot": asked.snapshot.key if asked.snapshot else None,
        "array": row.record.task.array if row.record.task else None,
        "task": row.record.task.number if row.record.task else None,
        "params": row.record.task.params if row.record.task else None,
        "live": resident.numbers if resident else None,
        "position": position,
        "expected_start": job_start(live, row.id) if row.state is JobState.PENDING else None,
        "forecast": forecast_view(expected, names.memory_of(devices)) if expected else None,
        "verdict": verdict_view(row.verdict or (placed.launch.get("verdict") if placed else None), names),
        "actual": (placed.actual if placed else None) or UNMEASURED,
    }


def max_of_all(moments: Sequence[float | None]) -> float | None:
    """The latest of these moments, None while one of them is not known."""
    known = [moment for moment in moments if moment is not None]
    return max(known) if known and len(known) == len(moments) else None


def _decisive(start: Sequence[AttemptRow]) -> AttemptRow | None:
    """The attempt whose end says most about the job's: of a gang the first that did not end well by itself."""
    failed = [
        one for one in start if one.ended_at is not None and one.exit_code != 0 and one.stop_reason != StopReason.GANG
    ]
    return min(failed, key=lambda one: one.ended_at or 0.0, default=start[0] if start else None)


def reason_in_words(row: LineRow, names: DeviceNames) -> str:
    """A waiting job's reason, for the page."""
    if row.state is JobState.HELD:
        return STATES[row.state]
    verdict = verdict_view(row.verdict, names)
    if verdict is not None:
        return verdict.sentence
    return f"{title(row.reason, {})}." if row.reason else "Not looked at yet."


def job_start(live: LiveView | None, job: int) -> ExpectedStart | None:
    """When this waiting job will probably start; None where that is not estimated."""
    return None if live is None else expected_start(live.starts.get(job), checked=live.starts_checked)


def expected_start(moments: tuple[float, float] | None, *, checked: bool) -> ExpectedStart | None:
    """Two unix times, or None for no forecast."""
    if moments is None:
        return None
    p50, p90 = moments
    return ExpectedStart(p50=rfc3339(p50), p50_unix=p50, p90=rfc3339(p90), p90_unix=p90, checked=checked)


def start_in_words(start: ExpectedStart | None, now: float) -> str | None:
    """As people read it; None without an estimate."""
    return None if start is None else start_text(asdict(start), now)


def device_views(
    known: Sequence[Device],
    reported: Sequence[DeviceStatus],
    names: DeviceNames,
    job_names: Mapping[int, str | None],
    attempts: Mapping[JobId, Sequence[AttemptRow]],
) -> list[DeviceView]:
    """These devices of the record and of the live view, by host and index; one without a fresh reading has null numbers."""
    devices = {device.id: device for device in reported}
    for device in known:
        if device.id not in devices:
            # The record still has the attempts that were launched on it.
            residents = tuple(
                ResidentStatus(job=row.job, attempt=row.number, started_at=row.started_at)
                for rows in attempts.values()
                for row in rows
                if device.id in row.devices
            )
            devices[device.id] = DeviceStatus.of(device, residents=residents)
    views = [_device_view(device, names, job_names, attempts) for device in devices.values()]
    return sorted(views, key=lambda view: (view.host, view.backend, natural_order(view.index), view.id))


def _device_view(
    device: DeviceStatus,
    names: DeviceNames,
    job_names: Mapping[int, str | None],
    attempts: Mapping[JobId, Sequence[AttemptRow]],
) -> DeviceView:
    vitals = device.vitals or Vitals()
    residents = []
    for one in device.residents:
        row = next((row for row in attempts.get(JobId(one.job), ()) if device.id in row.devices), None)
        launched = (row.launch.get("attempt") or {}) if row else {}
        residents.append(
            ResidentView(
                **{name: getattr(one, name) for name in _RESIDENT_KEYS},
                name=job_names.get(one.job),
                started_at=rfc3339_or_none(one.started_at),
                partners=list(one.partners),
                forecast=forecast_view(launched.get("forecast"), device.total_memory_bytes),
            )
        )
    return DeviceView(
        **{name: getattr(device, name) for name in _DEVICE_KEYS},
        **{name: getattr(vitals, name) for name in _VITAL_KEYS},
        name=names.of(device.id),
        kind=device.type,
        no_starts=None if device.no_starts is None else device.no_starts.why,
        throttling=None if vitals.throttling is None else list(vitals.throttling),
        xids=None if vitals.xids is None else {str(xid): count for xid, count in vitals.xids},
        until_at=rfc3339_or_none(device.until_at),
        until_at_unix=device.until_at,
        read_at=rfc3339_or_none(device.read_at),
        residents=residents,
    )


def event_view(entry: Entry) -> EventView:
    """One line of the journal."""
    return EventView(seq=entry.seq, at=rfc3339(entry.at), name=entry.name, jobs=list(entry.jobs), body=entry.body)
