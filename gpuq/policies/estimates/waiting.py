"""When will those who wait start? The queue as it stands, played forward many times with drawn durations.

Arrives: who runs where and since when, who waits, who comes, and their durations, in scenes that differ. Leaves: for each
who waits a median and a 90th percentile of the seconds until it starts. Pure: chance is passed in. Ignores sharing, failures and
preemption; what they change, `punctual.py` learns.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from heapq import heapify, heappop, heappush
from math import inf
from random import Random
from statistics import NormalDist

from gpuq.core.state.device import HostId
from gpuq.core.state.job import JobId

_NORMAL = NormalDist()
_Z90 = _NORMAL.inv_cdf(0.9)
# A duration foretold without a spread still is no promise.
_LEAST_SIGMA = 0.02


@dataclass(frozen=True)
class Duration:
    """Log-normal by its median and 90th percentile, in seconds."""

    p50_s: float
    p90_s: float

    @cached_property
    def sigma(self) -> float:
        """The standard deviation of the logarithm."""
        return max(_LEAST_SIGMA, math.log(max(self.p90_s, self.p50_s) / self.p50_s) / _Z90)

    def draw(self, chance: Random) -> float:
        """One duration."""
        return self.p50_s * math.exp(self.sigma * chance.gauss(0.0, 1.0))

    def draw_rest(self, elapsed_s: float, chance: Random) -> float:
        """What is left of one that has lasted so long; beyond all that was foretold, as long again as it is over."""
        if elapsed_s <= 0:
            return self.draw(chance)
        past = _NORMAL.cdf(math.log(elapsed_s / self.p50_s) / self.sigma)
        if past > 0.999:
            return chance.expovariate(1.0) * elapsed_s
        drawn = _NORMAL.inv_cdf(min(1 - 1e-12, past + (1 - past) * chance.random()))
        return max(0.0, self.p50_s * math.exp(self.sigma * drawn) - elapsed_s)


@dataclass(frozen=True, slots=True)
class Running:
    """Who holds `devices` of a host, since `elapsed_s`."""

    host: HostId
    devices: int
    elapsed_s: float
    duration: Duration


@dataclass(frozen=True, slots=True)
class Waiter:
    """Who waits for `devices` of one host. `rank` orders those who wait, the lowest first; `in_s` is when one will come that has
    not come yet."""

    job: JobId
    devices: int
    duration: Duration
    rank: tuple[float, ...]
    in_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Reserved:
    """Devices of a host that nobody but this one may have, who waited too long, once those end who run there."""

    waiter: Waiter
    host: HostId
    running: Sequence[Running]


@dataclass(frozen=True, slots=True)
class ExpectedStart:
    """Seconds from now; infinite where it did not start in most of the draws."""

    p50_s: float
    p90_s: float


@dataclass(frozen=True)
class Scene:
    """All that a draw begins with. `idle` is how many devices of each host are free now; `skips` says that what does not fit is
    passed by. `coming` are those that have not come yet, the first to come first. What is `reserved` is neither idle nor
    running here."""

    idle: Mapping[HostId, int]
    running: Sequence[Running]
    waiting: Sequence[Waiter]
    skips: bool = True
    coming: Iterable[Waiter] = ()
    reserved: Reserved | None = None


@dataclass
class _Play:
    """One draw: who starts when."""

    scene: Scene
    chance: Random
    free: dict[HostId, int]
    lines: dict[int, list[tuple[tuple[float, ...], int]]] = field(default_factory=dict)
    starts: dict[int, float] = field(default_factory=dict)
    events: list[tuple[float, int, HostId | None, int]] = field(default_factory=list)


def expected_starts(scenes: Sequence[Scene], chance: Random) -> dict[JobId, ExpectedStart]:
    """One draw of each scene, and what the draws say of each that waits now: the same ones in all of the scenes."""
    found: dict[JobId, list[float]] = {waiter.job: [] for waiter in scenes[0].waiting}
    for scene in scenes:
        starts = _draw(scene, chance)
        for number, waiter in enumerate(scene.waiting):
            found[waiter.job].append(starts.get(number, inf))
    return {job: ExpectedStart(_before(starts, 0.5), _before(starts, 0.9)) for job, starts in found.items()}


def _before(draws: Sequence[float], share: float) -> float:
    """What one more draw is not beyond with probability `share`: it falls into each of the gaps that the draws leave alike,
    and there is one gap more than draws. So of twenty the 19th holds nine times in ten, where the 18th holds six in seven."""
    return quantile(draws, share * (len(draws) + 1) / len(draws))


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of them do not exceed."""
    return sorted(values)[min(len(values), max(1, math.ceil(share * len(values)))) - 1]


def _draw(scene: Scene, chance: Random) -> dict[int, float]:
    """The start of each waiter of the scene, by its place there. No more come than are needed for it."""
    everybody, coming = list(scene.waiting), iter(scene.coming)
    play = _Play(scene, chance, dict(scene.idle))
    for runner in scene.running:
        play.events.append((runner.duration.draw_rest(runner.elapsed_s, chance), -1, runner.host, runner.devices))
    sure, at = _start_overdue(play)
    for number, waiter in enumerate(everybody):
        if waiter.job == sure:
            play.starts[number] = at
        else:
            play.lines.setdefault(waiter.devices, []).append((waiter.rank, number))
    _next_comes(play, everybody, coming)
    heapify(play.events)
    for line in play.lines.values():
        heapify(line)
    left = len(scene.waiting) - len(play.starts)
    left -= _fill(play, everybody, list(play.free), 0.0)
    while left and play.events:
        at, number, host, devices = heappop(play.events)
        if host is None:
            _next_comes(play, everybody, coming)
            heappush(play.lines.setdefault(devices, []), (everybody[number].rank, number))
            hosts = [name for name, free in play.free.items() if free >= devices]
        else:
            play.free[host] += devices
            hosts = [host]
        left -= _fill(play, everybody, hosts, at)
    return play.starts


def _start_overdue(play: _Play) -> tuple[JobId | None, float]:
    """Who will have the devices that are kept, and when; they are everybody's after it."""
    reserved = play.scene.reserved
    if reserved is None:
        return None, 0.0
    at = max((one.duration.draw_rest(one.elapsed_s, play.chance) for one in reserved.running), default=0.0)
    ends = at + reserved.waiter.duration.draw(play.chance)
    play.events.append((ends, -1, reserved.host, reserved.waiter.devices))
    return reserved.waiter.job, at


def _next_comes(play: _Play, everybody: list[Waiter], coming: Iterator[Waiter]) -> None:
    waiter = next(coming, None)
    if waiter is not None:
        heappush(play.events, (waiter.in_s, len(everybody), None, waiter.devices))
        everybody.append(waiter)


def _fill(play: _Play, everybody: Sequence[Waiter], hosts: Sequence[HostId], at: float) -> int:
    """Start who can start on these hosts now; how many of them wait in the scene."""
    before = len(play.starts)
    if play.scene.skips:
        for host in hosts:
            while play.free[host] and _start_first(play, everybody, (host,), at):
                pass
    else:
        while _start_first(play, everybody, play.free, at):
            pass
    return len(play.starts) - before


def _start_first(play: _Play, everybody: Sequence[Waiter], hosts: Iterable[HostId], at: float) -> bool:
    """Start the first that fits on one of the hosts; with nobody skipped, the first of all or none."""
    heads = [(line[0], devices) for devices, line in play.lines.items() if line]
    heads = sorted(heads) if play.scene.skips else [min(heads)] if heads else []
    for (_, number), devices in heads:
        for host in hosts:
            if play.free[host] >= devices:
                heappop(play.lines[devices])
                play.free[host] -= devices
                heappush(play.events, (at + everybody[number].duration.draw(play.chance), -1, host, devices))
                if number < len(play.scene.waiting):
                    play.starts[number] = at
                return True
    return False
