"""Gathers what one cycle of the dispatcher changes into one commit.

The recorder is given each event and action right after it was applied, together with the state, and keeps the rows as they are
from then on. The features stored with a launch are those that its forecast was made from; they are never computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec

from gpuq.adapters.store.row_types import AttemptRow, Chance, Commit, JobChange
from gpuq.core.state.actions import (
    Abandon,
    Action,
    Archive,
    EndBooking,
    EndReservation,
    Launch,
    OpenToPartners,
    Requeue,
    Reserve,
    Revise,
    SetPendingReason,
    Stop,
)
from gpuq.core.state.attempt import Attempt, AttemptId, Ending, StopReason
from gpuq.core.state.device import Device, DeviceId
from gpuq.core.state.events import (
    BookingCancelled,
    BookingMade,
    CancelRequested,
    Event,
    Exited,
    HostDrained,
    HostForgotten,
    HostReported,
    HostResumed,
    JobEdited,
    QuotaRemoved,
    QuotaSet,
    Started,
    WentBack,
)
from gpuq.core.state.job import ENDED, Job, JobId
from gpuq.core.state.quota import Quota
from gpuq.core.state.state import State
from gpuq.core.state.verdict import Rule
from gpuq.daemon.journal import jobs_of
from gpuq.messages.codec import plain
from gpuq.messages.outcome import AttemptOutcome

_set = msgspec.structs.replace
_MOMENTS_OF_HOSTS = (Rule.NO_STARTS, Rule.TIME_LEFT)


class Recorder:
    """Gathers one cycle. `features_of` gives a job's features by its signature; `outcome_of` what was measured of an attempt that
    ended."""

    def __init__(
        self,
        features_of: Callable[[str], Mapping[str, Any]],
        outcome_of: Callable[[Exited, Attempt], AttemptOutcome],
    ) -> None:
        self._features_of = features_of
        self._outcome_of = outcome_of
        self._devices: dict[DeviceId, Device] = {}
        self._reasons: dict[JobId, str] = {}
        self._gang_reasons: dict[JobId, str] = {}
        self._cancelled: dict[JobId, str] = {}  # jobs that have not ended yet, and by whom
        self._leaving: Attempt | None = None
        self._started: dict[AttemptId, float] = {}
        self._ends: list[tuple[AttemptId, dict[str, Any]]] = []
        self.commit = Commit()
        self._changes: dict[JobId, JobChange] = {}

    def before(self, item: Event | Action, state: State) -> None:
        """Look at what is about to be applied: an attempt that ends is not in the state afterwards."""
        self._leaving = state.attempts.get(item.attempt) if isinstance(item, Exited) else None

    def note(self, item: Event | Action, state: State) -> None:  # noqa: C901, PLR0912 - one case per noun
        """Take up one item that was just applied."""
        match item:
            case SetPendingReason(jobs=jobs, verdict=verdict):
                self.commit.verdicts.append((jobs, plain(verdict)))
                return
            case JobEdited(job=job, edit=edit):
                self.commit.edited.append((job, edit))
            case HostReported():
                reported = [state.devices[device.id] for device in item.devices]
                changed = [device for device in reported if self._devices.get(device.id) != device]
                self._devices.update({device.id: device for device in changed})
                self.commit.devices += changed
                return
            case HostDrained() | HostResumed() | QuotaSet() | QuotaRemoved():
                self._note_rule(item, state)
                return
            case WentBack(first_attempt=first):
                self.commit.first_attempt = first
                return
            case HostForgotten(host=host):
                self.commit.forgotten.append(host)
                self._devices = {id_: one for id_, one in self._devices.items() if one.host != host}
                return
            case Archive() | Reserve() | EndReservation() | BookingMade() | BookingCancelled() | EndBooking():
                # Not in the job's row: an archived job has ended, reservations are restored from the journal, and the API has
                # written the bookings.
                return
            case Launch():
                features = dict(self._features_of(state.jobs[item.attempt.id.job].signature))
                launch = partial(Launch, verdict=item.verdict, pauses=item.pauses)
                self.commit.launched += [_row(launch(one), features) for one in item.attempts]
            case Started(attempt=attempt, at=at, log_path=log_path):
                self.commit.started.append((attempt, at, log_path))
                self._started[attempt] = at
            case Stop(attempt=attempt, reason=reason):
                self.commit.stopped.append((attempt, reason))
            case OpenToPartners(attempt=attempt, promised=promised):
                self.commit.opened.append((attempt, promised))
            case Revise(attempt=attempt):
                # A restart makes the forecast again, from the next reports.
                self.commit.opened.append((attempt, min(item.promised) if item.shares else None))
            case Exited():
                self._note_reason(item, state)
                end = {
                    "ended_at": item.at,
                    "ending": item.ending.value,
                    "exit_code": item.exit_code,
                    "reason": item.reason,
                    "measurement": plain(item.measurement),
                    "actual": self._outcome_of(item, self._leaving) if self._leaving else None,
                }
                self.commit.ended.append((item.attempt, end))
                # By the host's clock, as `ended_at`: how long it ran is their difference.
                in_state = self._leaving.started_at if self._leaving else None
                started_at = self._started.pop(item.attempt, in_state)
                self._ends.append((item.attempt, {**end, "started_at": started_at}))
            case Requeue(job=job, reason=reason) | Abandon(job=job, reason=reason):
                self._reasons[job] = reason
            case CancelRequested(job=job, by=by):
                self._reasons[job] = self._cancelled[job] = f"cancelled by {by}"
            case _:
                pass
        for job_id in map(JobId, jobs_of(item)):
            if job_id in state.jobs:
                pending = plain(state.verdicts[job_id]) if job_id in state.verdicts else None
                self._changes[job_id] = JobChange(state.jobs[job_id], pending, self._reasons.get(job_id))
                if state.jobs[job_id].state in ENDED:
                    self._cancelled.pop(job_id, None)

    def _note_reason(self, end: Exited, state: State) -> None:
        """Take up why a job's attempt ended; of a gang, why the first did that was not stopped because of another one."""
        job, why, left = end.attempt.job, end.reason, self._leaving
        if left is not None and left.stopping is StopReason.IDLE and end.ending is Ending.STOPPED:
            why = f"stopped because {StopReason.IDLE.value}"
        if left is not None and left.stopping is StopReason.TIME_LIMIT and end.ending is Ending.STOPPED:
            why = f"it ran longer than its limit of {state.jobs[job].time_limit_s:g} s"
        if left is not None and left.gang is not None:
            if left.stopping is not StopReason.GANG and end.exit_code != 0:
                self._gang_reasons.setdefault(job, f"on host {left.host}: {end.reason}")
            why = self._gang_reasons.get(job, end.reason)
            if job not in state.gang_ends:
                self._gang_reasons.pop(job, None)
        if state.jobs[job].cancel_requested and end.ending in (Ending.STOPPED, Ending.NEVER_STARTED):
            why = self._cancelled.get(job, "cancelled")  # by whom is not known after a restart
        self._reasons[job] = why

    def _note_rule(self, item: HostDrained | HostResumed | QuotaSet | QuotaRemoved, state: State) -> None:
        """Take up what an operator or an admin decided about hosts or quotas."""
        match item:
            case HostDrained(host=host) | HostResumed(host=host):
                self.commit.drained[host] = state.drained.get(host)
            case QuotaSet(quota=Quota(account=account)) | QuotaRemoved(account=account):
                self.commit.quotas[account] = state.quotas.get(account)

    def ends(self) -> list[tuple[AttemptId, dict[str, Any]]]:
        """The attempts that ended since the last call, as their rows will have it, `started_at` included."""
        ends, self._ends = self._ends, []
        return ends

    def take(self, wall_offset: float = 0.0) -> Commit:
        """The commit of this cycle; the next one starts empty. `wall_offset` brings the times of the state to wall time."""
        commit, self.commit = self.commit, Commit()
        commit.jobs = list(self._changes.values())
        self._changes = {}
        self._reasons = {}
        if wall_offset:
            commit.jobs = [
                _set(
                    change,
                    job=_job_later(change.job, wall_offset),
                    verdict=change.verdict and _verdict_later(change.verdict, wall_offset),
                )
                for change in commit.jobs
            ]
            commit.verdicts = [(jobs, _verdict_later(verdict, wall_offset)) for jobs, verdict in commit.verdicts]
            commit.edited = [(job, edit.later(wall_offset)) for job, edit in commit.edited]
            commit.launched = [_set(row, launched_at=row.launched_at + wall_offset) for row in commit.launched]
            commit.chances = [_later(chance, wall_offset) for chance in commit.chances]
        return commit


def _row(launch: Launch, features: Mapping[str, Any]) -> AttemptRow:
    launched = launch.attempt
    return AttemptRow(
        job=launched.id.job,
        number=launched.id.number,
        host=launched.host,
        devices=launched.devices,
        launched_at=launched.launched_at,
        launch=plain(launch),
        features=dict(features),
        model_version=launched.forecast.model_version,
    )


def _job_later(job: Job, by_s: float) -> Job:
    def later(at: float | None) -> float | None:
        return None if at is None else at + by_s

    return replace(job, since=job.since + by_s, eligible_at=later(job.eligible_at), not_before=later(job.not_before))


def _verdict_later(verdict: dict[str, Any], by_s: float) -> dict[str, Any]:
    """A plain verdict, but for the moments that a host has said, which are by the wall clock already."""
    if verdict["rule"] in _MOMENTS_OF_HOSTS:
        return verdict
    numbers = (
        (name, value + by_s if name.endswith("_at") and value is not None else value)
        for name, value in verdict["numbers"]
    )
    return {**verdict, "numbers": list(numbers)}


def _later(chance: Chance, by_s: float) -> Chance:
    free_at = None if chance.free_at is None else chance.free_at + by_s
    return _set(chance, at=chance.at + by_s, free_at=free_at)
