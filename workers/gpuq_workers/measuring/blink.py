"""Blinks: pause one of two partners for about a second, to measure the other alone. The cost of sharing, by experiment.

Requests go to the shims, which do the pausing (`shim/blink.py`); the sampler gets the steps that the other job made meanwhile,
or why no partner is paused. Both partners must have been submitted with `--blink`, and the site must allow it. The moments are
exponentially distributed after the time in which a pause is earned, so that no phase of a training is met more often than it
lasts. At most one blink at a time runs on a host.

What counts. A partner needs a moment to stand still, on a GPU the work that it had launched has to drain, and the other job's
caches and pipelines fill. So the first quarter of a second of each pause, or the first step if that is longer, is dropped
(`SETTLE_S`). Of the rest, steps and seconds are summed over all pauses. A window begins and ends in the middle of a step. If
that step began no longer ago than the dropped time, the window is counted from the begin of the step, at both ends alike. At
random moments both ends have the same distribution, so this only removes the noise of cut steps and leaves the ratio of the sums
unbiased, also for steps of uneven length and occasional validations. A pause without a step counts as well.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from gpuq.core.state.attempt import AttemptId
from gpuq_workers.attempts import AttemptFolder, BlinkAnswer, counter_path
from gpuq_workers.measuring.peers import why_not_alone
from gpuq_workers.measuring.progress import Progress, read_progress
from gpuq_workers.measuring.sample import AloneSteps, WatchedResident
from gpuq_workers.measuring.sampler_thread import SamplerThread
from gpuq_workers.shim.blink import EARN, LONGEST_S

log = logging.getLogger(__name__)

PAUSE_S = 1.0
SETTLE_S = 0.25
# A pause should hold this many steps of the measured job, and must hold this many.
_STEPS_WANTED, _STEPS_NEEDED = 4, 2
_LOOK_EVERY_S = 0.05
_SHIM_COMES_WITHIN_S, _ANSWER_WITHIN_S = 2.0, 4.0
_WARM_AFTER_S = 10.0
_TRY_AGAIN_S = 10.0
# Before Volta, MPS clients share one context, and a stopped client may block the other.
_VOLTA_OR_LATER = re.compile(
    r"\b(TITAN (V|RTX)|V100S?|T4G?|T\d{3,4}|GTX 16\d\d|RTX|[AL]\d+[ASG]?|H[12]00|GH200|G?B\d{3})\b"
)

Glance = tuple[float, Progress]
"""(CLOCK_MONOTONIC seconds, the step counter at that time)."""


@dataclass(frozen=True, slots=True)
class PausedPair:
    """The partner to pause and the job to measure meanwhile; they share one device."""

    paused: WatchedResident
    measured: WatchedResident


@dataclass
class Blinker:
    """Chooses the moments and carries out each blink. For one event loop."""

    allowed: bool
    residents: Callable[[], Sequence[WatchedResident]]
    meters: SamplerThread
    chance: random.Random
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    peers: Callable[[WatchedResident], str | None] = field(
        default=lambda resident: why_not_alone(resident.root_pid, counter_path(resident.folder))
    )
    _next: dict[AttemptId, float] = field(default_factory=dict)
    _noted: dict[AttemptId, str] = field(default_factory=dict)

    async def poll(self) -> None:
        """Carry out the blinks whose moment has come; returns when they are over."""
        residents = self.residents()
        here = {resident.attempt for resident in residents}
        self._next = {attempt: at for attempt, at in self._next.items() if attempt in here}
        self._noted = {attempt: note for attempt, note in self._noted.items() if attempt in here}
        for measured in residents:
            partners = _partners_of(measured, residents)
            if not measured.blink or measured.is_paused or not partners:
                continue
            pair = self._pair(measured, partners)
            if isinstance(pair, str):
                await self._note(measured.attempt, pair)
                continue
            paused, now = pair.paused.attempt, self.clock()
            if paused not in self._next:
                self._next[paused] = self._random_moment(now, PAUSE_S)
            if now >= self._next[paused]:
                await self._try(pair)

    def _pair(self, measured: WatchedResident, partners: Sequence[WatchedResident]) -> PausedPair | str:
        """The pair for measuring this job, or why no partner can be paused."""
        if not self.allowed:
            return "its host does not allow it (`blink` in [worker])"
        if len(partners) > 1:
            return "it has more than one partner"
        (partner,) = partners
        if not partner.blink:
            return f"job {partner.attempt.job} beside it was not submitted with --blink"
        several = next((one for one in (measured, partner) if len(one.devices) > 1), None)
        if several is not None:
            return f"job {several.attempt.job} runs on several devices"
        device = next((one for one in self.meters.devices if one.id == measured.devices[0]), None)
        if device is None or (device.sharing == "mps" and not _VOLTA_OR_LATER.search(device.type)):
            return "one client of MPS that stands still may hold up the other on such a device"
        return PausedPair(partner, measured)

    async def _note(self, attempt: AttemptId, why_not: str) -> None:
        if self._noted.get(attempt) != why_not:
            self._noted[attempt] = why_not
            await self.meters.note(attempt, why_not)

    def _random_moment(self, after: float, seconds: float) -> float:
        """A moment after a pause of `seconds` is earned, exponentially distributed so that it follows no rhythm."""
        # 2% more than earned, because the shim keeps the account and its pause ends a little later than estimated here.
        return after + EARN * seconds * 1.02 + self.chance.expovariate(1 / (EARN * seconds))

    async def _try(self, pair: PausedPair) -> None:
        """Blink if both jobs are ready for it; otherwise record why not and choose a later moment."""
        paused = pair.paused.attempt
        early = await asyncio.to_thread(_too_early, pair, self.clock())
        if early is not None:
            self._next[paused] = self.clock() + self.chance.uniform(0.5, 1.5) * _TRY_AGAIN_S
            await self._note(pair.measured.attempt, early)
            return
        length = await asyncio.to_thread(self._length, pair)
        if isinstance(length, str):
            self._next[paused] = self._random_moment(self.clock(), PAUSE_S)
            await self._note(pair.measured.attempt, length)
            return
        self._next[paused] = self._random_moment(self.clock() + length[0], length[0])
        both = (paused, pair.measured.attempt)
        await self.meters.pause(both)
        measured: AloneSteps | None = None
        try:
            measured = await self._blink(pair, *length)
        except OSError as error:
            log.warning("a pause failed: %s", error, extra={"action": "blink", "attempt": str(paused)})
        finally:
            await self.meters.resume(both, measured)

    def _length(self, pair: PausedPair) -> tuple[float, float] | str:
        """(seconds of the pause, seconds to drop) as from `pause_length`, or why there can be none."""
        peers = self.peers(pair.paused)
        if peers is not None:
            return f"of job {pair.paused.attempt.job} beside it: {peers}"
        progress = _progress(pair.measured)
        length = None if progress is None else pause_length(progress)
        return length or "a step of its own takes longer than a pause may"

    async def _blink(self, pair: PausedPair, seconds: float, settle_s: float) -> AloneSteps | None:
        """One pause, from the request to the steps measured in it; None if nothing was measured."""
        folder = AttemptFolder(pair.paused.folder, pair.paused.attempt)
        began = self.clock()
        number = int(began * 1000)  # rises across restarts of this process, because the shim accepts no number twice
        folder.ask_blink(number, seconds, began + _SHIM_COMES_WITHIN_S)
        looks: list[Glance] = []
        answer: BlinkAnswer | None = None
        while answer is None and self.clock() < began + seconds + _ANSWER_WITHIN_S:
            await self.sleep(_LOOK_EVERY_S)
            found = folder.blinked()
            answer = found if found is not None and found.id == number else None
            progress = _progress(pair.measured)
            if progress is not None:
                looks.append((self.clock(), progress))
        if [one.attempt for one in _partners_of(pair.measured, self.residents())] != [pair.paused.attempt]:
            return None  # a partner started or ended meanwhile
        if answer is None or answer.why_not is not None or answer.began is None or answer.ended is None:
            why_not = answer.why_not if answer else "its shim did not answer"
            log.info(
                "nothing was measured in a pause: %s",
                why_not,
                extra={"action": "blink", "attempt": str(pair.measured.attempt), "paused": str(pair.paused.attempt)},
            )
            return None
        window = alone_window(looks, answer.began, answer.ended, settle_s)
        return window and AloneSteps(pair.measured.attempt, (pair.paused.attempt,), *window)


def alone_window(looks: Sequence[Glance], began: float, ended: float, settle_s: float) -> tuple[int, float] | None:
    """(steps, seconds) measured in a pause from `began` to `ended`; None without looks in it."""
    inside = [look for look in looks if began + settle_s <= look[0] <= ended]
    if len(inside) < 2:
        return None
    (first, begin), (last, end) = inside[0], inside[-1]
    # A window cuts a step at each end. Counting both cut steps from their begin removes that noise, but a begin before the pause
    # is no time alone: so only steps that began within the dropped time are extended, by the same limit at both ends.
    known = first - began
    seconds = last - first + _age(first, begin, known) - _age(last, end, known)
    return (end.steps - begin.steps, seconds) if seconds > 0 and end.steps >= begin.steps else None


def _age(at: float, progress: Progress, known: float) -> float:
    """Seconds since the current step began at time `at`; 0 if it began more than `known` seconds ago."""
    age = at - progress.last_step_at
    return age if 0 <= age <= known else 0.0


def pause_length(progress: Progress) -> tuple[float, float] | None:
    """(seconds of the pause, seconds to drop at its begin) for a few steps of this job; None if no pause may be so long."""
    # A single step has no length: the counter records only when steps end.
    if progress.steps < 2 or progress.last_step_at <= progress.first_step_at:
        return None
    step_s = (progress.last_step_at - progress.first_step_at) / (progress.steps - 1)
    settle_s = max(SETTLE_S, step_s)
    if settle_s + _STEPS_NEEDED * step_s > LONGEST_S:
        return None
    return min(LONGEST_S, max(PAUSE_S, settle_s + _STEPS_WANTED * step_s)), settle_s


def _too_early(pair: PausedPair, now: float) -> str | None:
    """Why not now, None if now: both jobs must have trained for a while, and neither may be about to stop."""
    for one in (pair.paused, pair.measured):
        progress = _progress(one)
        if progress is None:
            return f"job {one.attempt.job} has counted no steps"
        if now - progress.first_step_at < _WARM_AFTER_S:
            return f"job {one.attempt.job} has only begun to train"
        if AttemptFolder(one.folder, one.attempt).is_wanted_back():
            return f"job {one.attempt.job} is being stopped"
    return None


def _progress(resident: WatchedResident) -> Progress | None:
    return read_progress(counter_path(resident.folder))


def _partners_of(resident: WatchedResident, residents: Sequence[WatchedResident]) -> list[WatchedResident]:
    """The other residents that share a device with this one and do not stand still."""
    own = set(resident.devices)
    # Most share no device with it, so that is looked at first.
    beside = [other for other in residents if not own.isdisjoint(other.devices)]
    return [other for other in beside if other.attempt != resident.attempt and not other.is_paused]
