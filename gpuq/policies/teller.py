"""Start times for those who wait, from the board.

Arrives: the board of each pass, whatever the policy. Leaves: an expected start for each waiting job. What the draws of
`waiting.py` leave out, such as sharing, is in the factors that `punctual.py` learns from earlier starts, for single devices
and gangs apart.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from random import Random
from statistics import median

from gpuq.core.attempt import Attempt
from gpuq.core.board import Board
from gpuq.core.device import HostId
from gpuq.core.index import sort_of
from gpuq.core.job import ACTIVE, WAITING, Job, JobId
from gpuq.policies.mgk import Traffic, observed
from gpuq.policies.punctual import Punctual
from gpuq.policies.waiting import Duration, ExpectedStart, Running, Scene, Waiter, expected_starts

# What a job is taken to need while nothing is known of any.
_NOBODY_KNOWS = Duration(3600.0, 4 * 3600.0)
# Arrivals that are looked back on, and starts that the factors rest on; fewer than the least of them say nothing.
_LOOK_BACK, _LEAST = 400, 20
# Comers are drawn for so many mean services ahead.
_AHEAD = 3.0


class Teller:
    """Watches arrivals and starts. `overtaking` is that of the policy's order: a job counts as submitted so many times its
    device-time later. `skips`: what does not fit is passed by."""

    def __init__(
        self, *, overtaking: float = 0.0, skips: bool = True, draws: int = 20, comers: int = _LOOK_BACK
    ) -> None:
        self._overtaking, self._skips, self._draws, self._most = overtaking, skips, draws, comers
        self._arrivals: deque[tuple[float, int, int, Duration]] = deque(maxlen=_LOOK_BACK)
        self._punctual = {gang: Punctual() for gang in (False, True)}
        self._come: set[JobId] = set()
        self._told: set[JobId] = set()
        self._raw: dict[JobId, ExpectedStart] = {}

    def look(self, board: Board) -> dict[JobId, ExpectedStart]:
        """Expected starts of all who wait, in seconds from now; each is held to the first that it was told."""
        self.watch(board)
        found = self.among(board, board.waiting)
        for job in board.waiting:
            self.remember(board, job)
        return found

    def among(self, board: Board, jobs: Sequence[Job]) -> dict[JobId, ExpectedStart]:
        """As if only these waited. The same boards in the same order give the same answers."""
        if not jobs:
            return {}
        chance = Random(f"{board.now}")  # noqa: S311 - a forecast
        scene = self.scene(board, jobs)
        horizon = _AHEAD * sum(w.duration.p50_s for w in scene.waiting) / len(scene.waiting)
        heed = self._who_comes_matters(jobs)
        comers = [self._comers(board.now, horizon, chance) if heed else [] for _ in range(self._draws)]
        self._raw = expected_starts(scene, comers, chance)
        found: dict[JobId, ExpectedStart] = {}
        for gang, punctual in self._punctual.items():
            alike = [job.id for job in jobs if (job.device_count > 1) == gang]
            found.update(zip(alike, punctual.corrected([self._raw[job] for job in alike], board.now), strict=True))
        return found

    def in_order(self, board: Board) -> list[Job]:
        """Those who wait, the first to go first."""
        durations = self._durations(board, board.waiting)
        ranked = [
            (self._waiter(job, duration).rank, job) for job, duration in zip(board.waiting, durations, strict=True)
        ]
        return [job for _, job in sorted(ranked, key=lambda found: (found[0], found[1].id))]

    def remember(self, board: Board, job: Job) -> None:
        """This job was told what was last found of it: later answers learn from when it starts. Only the first time counts."""
        if job.id not in self._told and job.id in self._raw and not job.attempt:
            self._told.add(job.id)
            self._punctual[job.device_count > 1].tell(job.id, self._raw[job.id], board.now)

    def traffic(self) -> Traffic | None:
        """What came of late, with the durations that are foretold of it."""
        return observed([(at, duration.p50_s, devices) for at, devices, _, duration in self._arrivals])

    def scene(self, board: Board, jobs: Sequence[Job]) -> Scene:
        """The board as `waiting.py` plays it, with these waiting."""
        durations = self._durations(board, jobs)
        waiters = [self._waiter(job, duration) for job, duration in zip(jobs, durations, strict=True)]
        return Scene(_idle(board), _running(board), waiters, self._skips)

    # --- what comes, and what came true --------------------------------------------------------------------------------

    def watch(self, board: Board) -> None:
        """Take in who has come and who has started; cheap, and best done in every pass."""
        for teller in self._punctual.values():
            for job_id in teller.waiting:
                job = board.state.jobs.get(job_id)
                if job is None or (job.state not in WAITING and not job.attempt):
                    teller.gone(job_id)
                elif job.attempt:
                    teller.started(job_id, job.since if job.state in ACTIVE else board.now)
        self._told &= board.state.jobs.keys()
        self._come &= board.state.jobs.keys()
        fresh = [job for job in board.waiting if job.id not in self._come and not job.attempt]
        for job, duration in zip(fresh, self._durations(board, fresh), strict=True):
            self._come.add(job.id)
            self._arrivals.append((job.submitted_at, job.device_count, job.priority, duration))

    def _who_comes_matters(self, jobs: Sequence[Job]) -> bool:
        """Whether those who come could go before any of these: by their size, by priority, or past a gang that does not fit."""
        passing = self._skips and any(job.device_count > 1 for job in jobs)
        return (
            bool(self._overtaking)
            or passing
            or len({job.priority for job in jobs} | {a[2] for a in self._arrivals}) > 1
        )

    def _comers(self, now: float, horizon_s: float, chance: Random) -> list[Waiter]:
        """Arrivals as often as of late, each like one of those."""
        if len(self._arrivals) < _LEAST:
            return []
        gap = (self._arrivals[-1][0] - self._arrivals[0][0]) / (len(self._arrivals) - 1)
        comers: list[Waiter] = []
        at = 0.0
        while gap > 0 and (at := at + chance.expovariate(1 / gap)) < horizon_s and len(comers) < self._most:
            _, devices, priority, duration = chance.choice(self._arrivals)
            rank = self._rank(now + at, priority, devices, duration)
            comers.append(Waiter(JobId(-1), devices, duration, rank, at))
        return comers

    # --- what waits and runs -------------------------------------------------------------------------------------------

    def _waiter(self, job: Job, duration: Duration) -> Waiter:
        return Waiter(
            job.id, job.device_count, duration, self._rank(job.submitted_at, job.priority, job.device_count, duration)
        )

    def _rank(self, submitted_at: float, priority: int, devices: int, duration: Duration) -> tuple[float, ...]:
        return (-priority, submitted_at + self._overtaking * devices * duration.p50_s)

    @staticmethod
    def _durations(board: Board, jobs: Sequence[Job]) -> list[Duration]:
        """As foretold on the first type that says so; the middle of the others' where nothing is."""
        devices = list({sort_of(place.device): place.device for place in board.places}.values())
        found: list[Duration | None] = []
        for job in jobs:
            forecasts = (board.forecast_alone(job, device) for device in devices)
            found.append(next((d for f in forecasts if (d := _duration(f.duration_p50_s, f.duration_p90_s))), None))
        known = [duration for duration in found if duration]
        usual = Duration(median(d.p50_s for d in known), max(d.p90_s for d in known)) if known else _NOBODY_KNOWS
        return [duration or usual for duration in found]


def _duration(p50_s: float | None, p90_s: float | None) -> Duration | None:
    return None if p50_s is None else Duration(max(1.0, p50_s), max(1.0, p50_s, p90_s or 0.0))


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
