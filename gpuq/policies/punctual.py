"""Start times for those who wait, from the board, and learnt from: how late were the starts that were foretold before?

Arrives: the board of each pass, whatever the policy. Leaves: an expected start for each waiting job. What the draws of
`waiting.py` leave out, such as sharing, is in the factors that they are multiplied by: those that would have made earlier
medians right, and nine of ten earlier 90th percentiles hold.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from random import Random
from statistics import median

from gpuq.core.attempt import Attempt
from gpuq.core.board import Board, sort_of
from gpuq.core.device import HostId
from gpuq.core.job import WAITING, Job, JobId
from gpuq.policies.mgk import Traffic, observed
from gpuq.policies.waiting import Duration, ExpectedStart, Running, Scene, Waiter, expected_starts, quantile

# What a job is taken to need while nothing is known of any.
_NOBODY_KNOWS = Duration(3600.0, 4 * 3600.0)
# Arrivals that are looked back on, and starts that the factors rest on; fewer than the least of them say nothing.
_LOOK_BACK, _LEAST = 400, 20
# Waits are compared from a minute on: below, nobody minds the ratio.
_A_MINUTE = 60.0
# Comers are drawn for so many mean services ahead.
_AHEAD = 3.0


@dataclass(frozen=True, slots=True)
class _Told:
    """What was foretold of a job when it came, before the factors."""

    at: float
    devices: int
    start: ExpectedStart


class Punctual:
    """Watches arrivals and starts. `overtaking` is that of the policy's order: a job counts as submitted so many times its
    device-time later. `skips`: what does not fit is passed by."""

    def __init__(self, *, overtaking: float = 0.0, skips: bool = True, draws: int = 30) -> None:
        self._overtaking, self._skips, self._draws = overtaking, skips, draws
        self._arrivals: deque[tuple[float, int, int, Duration]] = deque(maxlen=_LOOK_BACK)
        self._told: dict[JobId, _Told] = {}
        self._late: dict[bool, deque[tuple[float, float]]] = {gang: deque(maxlen=_LOOK_BACK) for gang in (False, True)}
        self._seen: set[JobId] = set()

    def look(self, board: Board) -> dict[JobId, ExpectedStart]:
        """Expected starts of all who wait, in seconds from now. The same boards in the same order give the same answers."""
        chance = Random(f"{board.now}")  # noqa: S311 - a forecast
        self._take_in(board)
        if not board.waiting:
            return {}
        scene = self.scene(board)
        horizon = _AHEAD * sum(w.duration.p50_s for w in scene.waiting) / len(scene.waiting)
        comers = [self._comers(board.now, horizon, chance) for _ in range(self._draws)]
        raw = expected_starts(scene, comers, chance)
        for job in board.waiting:
            if job.id not in self._seen:
                self._seen.add(job.id)
                self._told[job.id] = _Told(board.now, job.device_count, raw[job.id])
        return {job.id: self._corrected(raw[job.id], job.device_count, board.now) for job in board.waiting}

    def traffic(self) -> Traffic | None:
        """What came of late, with the durations that are foretold of it."""
        return observed([(at, duration.p50_s, devices) for at, devices, _, duration in self._arrivals])

    def scene(self, board: Board) -> Scene:
        """The board as `waiting.py` plays it."""
        durations = self._durations(board)
        return Scene(
            _idle(board), _running(board), [self._waiter(job, durations[job.id]) for job in board.waiting], self._skips
        )

    # --- what comes, and what came true --------------------------------------------------------------------------------

    def _take_in(self, board: Board) -> None:
        for job_id in [job_id for job_id in self._told if not self._waits(board, job_id)]:
            told = self._told.pop(job_id)
            job = board.state.jobs.get(job_id)
            if job is not None and job.attempt:
                self._late[told.devices > 1].append(_ratios(told, board.now - told.at))
        self._seen &= board.state.jobs.keys()
        fresh = [job for job in board.waiting if job.id not in self._seen and not job.attempt]
        known = self._durations(board) if fresh else {}
        for job in sorted(fresh, key=lambda job: job.submitted_at):
            self._arrivals.append((job.submitted_at, job.device_count, job.priority, known[job.id]))

    @staticmethod
    def _waits(board: Board, job_id: JobId) -> bool:
        job = board.state.jobs.get(job_id)
        return job is not None and job.state in WAITING and not job.attempt

    def _comers(self, now: float, horizon_s: float, chance: Random) -> list[Waiter]:
        """Arrivals as often as of late, each like one of those."""
        if len(self._arrivals) < _LEAST:
            return []
        gap = (self._arrivals[-1][0] - self._arrivals[0][0]) / (len(self._arrivals) - 1)
        comers, at = [], 0.0
        while gap > 0 and (at := at + chance.expovariate(1 / gap)) < horizon_s and len(comers) < _LOOK_BACK:
            _, devices, priority, duration = chance.choice(self._arrivals)
            rank = self._rank(now + at, priority, devices, duration)
            comers.append(Waiter(JobId(-1), devices, duration, rank, at))
        return comers

    def _corrected(self, raw: ExpectedStart, devices: int, now: float) -> ExpectedStart:
        """Times the factors that earlier starts ask for; those still waited for count where they are later than that already."""
        late = self._late[devices > 1]
        if len(late) < _LEAST:
            return raw
        waited = [_ratios(told, now - told.at) for told in self._told.values() if (told.devices > 1) == (devices > 1)]
        usual = median(ratio for ratio, _ in late)
        high = quantile([ratio for _, ratio in late], 0.9)
        usual = median([*(ratio for ratio, _ in late), *(ratio for ratio, _ in waited if ratio > usual)])
        high = quantile([*(ratio for _, ratio in late), *(ratio for _, ratio in waited if ratio > high)], 0.9)
        p50 = max(0.0, usual * (raw.p50_s + _A_MINUTE) - _A_MINUTE)
        return ExpectedStart(p50, max(p50, high * (raw.p90_s + _A_MINUTE) - _A_MINUTE))

    # --- what waits and runs -------------------------------------------------------------------------------------------

    def _waiter(self, job: Job, duration: Duration) -> Waiter:
        return Waiter(
            job.id, job.device_count, duration, self._rank(job.submitted_at, job.priority, job.device_count, duration)
        )

    def _rank(self, submitted_at: float, priority: int, devices: int, duration: Duration) -> tuple[float, ...]:
        return (-priority, submitted_at + self._overtaking * devices * duration.p50_s)

    @staticmethod
    def _durations(board: Board) -> dict[JobId, Duration]:
        """As foretold on the first type that says so; the middle of the others' where nothing is."""
        devices = list({sort_of(place.device): place.device for place in board.places}.values())
        found: dict[JobId, Duration | None] = {}
        for job in board.waiting:
            forecasts = (board.forecast_alone(job, device) for device in devices)
            found[job.id] = next((d for f in forecasts if (d := _duration(f.duration_p50_s, f.duration_p90_s))), None)
        known = [duration for duration in found.values() if duration]
        usual = Duration(median(d.p50_s for d in known), max(d.p90_s for d in known)) if known else _NOBODY_KNOWS
        return {job: duration or usual for job, duration in found.items()}


def _duration(p50_s: float | None, p90_s: float | None) -> Duration | None:
    return None if p50_s is None else Duration(max(1.0, p50_s), max(1.0, p50_s, p90_s or 0.0))


def _ratios(told: _Told, waited_s: float) -> tuple[float, float]:
    return tuple((waited_s + _A_MINUTE) / (said + _A_MINUTE) for said in (told.start.p50_s, told.start.p90_s))  # type: ignore[return-value]


def _idle(board: Board) -> dict[HostId, int]:
    idle: dict[HostId, int] = {}
    for place in board.places:
        free = not place.residents and place.reading is not None and not board.given(place.device.id)
        idle[place.device.host] = idle.get(place.device.host, 0) + free
    return idle


def _running(board: Board) -> list[Running]:
    """Of those who share a device, the one who is expected to hold it longest."""
    last: dict[Attempt, int] = {}
    for place in board.places:
        if place.residents:
            longest = max(place.residents, key=lambda attempt: _expected_end(attempt, board.now))
            last[longest] = last.get(longest, 0) + 1
    return [
        Running(attempt.host, devices, max(0.0, board.now - _begun(attempt)), _of(attempt))
        for attempt, devices in last.items()
    ]


def _begun(attempt: Attempt) -> float:
    return attempt.launched_at if attempt.started_at is None else attempt.started_at


def _of(attempt: Attempt) -> Duration:
    return _duration(attempt.forecast.duration_p50_s, attempt.forecast.duration_p90_s) or _NOBODY_KNOWS


def _expected_end(attempt: Attempt, now: float) -> float:
    return max(_begun(attempt) + _of(attempt).p50_s, now)
