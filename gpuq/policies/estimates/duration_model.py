"""How long will they last, all together? Worlds are drawn that agree with all that ended and with all that still runs.

Arrives: attempts as they end; at each look those that run, with their ages, and what is asked about. Leaves: worlds, in each
of which every kind has its duration. Jobs of a kind err together: where nobody knows the kind, twenty of its jobs are all short
or all long, and a queue of them is foretold far less surely than one of twenty strangers. Those that end first are the short
ones, so whatever still runs counts with its age (a censored observation). Pure; chance is passed in. Ignores sharing.

The logarithm of a duration is normal: around a centre, off by an error of its kind, spread within its kind. The centre is the
foretold median, or where nothing is foretold one of the whole site, with kinds around it. Each quantity begins with a wide prior.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpuq.core.state.job import KindId
from gpuq.policies.estimates.waiting import Duration

Floats = NDArray[np.float64]
World = Mapping["Asked", Duration]

# Before anything was seen, as standard deviations: the site's centre is an hour, off by a factor of ten; a foretold median is off
# by a factor of two, and jobs of a kind by one of 1.5, as if so many had shown it.
_HOUR, _OFF_HOUR, _OFF, _WITHIN, _SHOWN = math.log(3600.0), math.log(10.0), math.log(2.0), math.log(1.5), 4
# Kinds that are remembered, those of which one ended last.
_KINDS = 400
_Z90 = NormalDist().inv_cdf(0.9)
# Where a kind may lie, from a second to thirty days, and by how much a foretold one may be off: logarithms.
_PLACES: Floats = np.linspace(0.0, math.log(30 * 86_400.0), 100)
_ERRORS: Floats = np.linspace(-7.5, 7.5, 151)
# The site's centre, and how far its kinds lie apart, as they are weighed.
_CENTRES, _APART = np.meshgrid(np.arange(2.0, 15.1, 0.5), np.geomspace(0.5, 4.0, 10), indexing="ij")


class Asked(NamedTuple):
    """A kind, and what is foretold of a job of it: None is nothing."""

    kind: KindId
    foretold: Duration | None


class Aged(NamedTuple):
    """One that runs, since so many seconds."""

    asked: Asked
    elapsed_s: float


@dataclass(slots=True)
class Seen:
    """What ended of a kind: how many, the mean of the logarithms, and the squares around it; and by how much the foretold were
    off in sum."""

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0
    foretold: int = 0
    off: float = 0.0

    def add(self, lasted: float, foretold: Duration | None) -> None:
        """Welford's way to a mean and squares."""
        self.count += 1
        step = lasted - self.mean
        self.mean += step / self.count
        self.squares += step * (lasted - self.mean)
        if foretold is not None:
            self.foretold += 1
            self.off += lasted - math.log(foretold.p50_s)


class Lasting:
    """Remembers what ended, by kind. `known` is what one before it has seen."""

    def __init__(self, known: Mapping[KindId, Seen] | None = None) -> None:
        self._seen = dict(known or {})

    @property
    def seen(self) -> dict[KindId, Seen]:
        """What ended of each kind; that of which one ended last comes last."""
        return self._seen

    def ended(self, asked: Asked, seconds: float) -> None:
        """One that was launched with this foretold lasted so long."""
        seen = self._seen.pop(asked.kind) if asked.kind in self._seen else Seen()
        seen.add(_log(seconds), asked.foretold)
        self._seen[asked.kind] = seen
        if len(self._seen) > _KINDS:
            del self._seen[next(iter(self._seen))]

    def worlds(self, running: Sequence[Aged], asked: Iterable[Asked], count: int, chance: Random) -> list[World]:
        """So many worlds, each with a duration for all that runs or is asked about. The same chance gives the same worlds."""
        numbers = np.random.default_rng(chance.getrandbits(64))
        within = self._within()
        wanted = dict.fromkeys((*(one.asked for one in running), *asked))
        alike: dict[tuple[KindId, bool], list[Aged]] = {_group(one): [] for one in wanted}
        for aged in running:
            alike[_group(aged.asked)].append(aged)
        drawn: dict[tuple[KindId, bool], Floats] = {}
        site = self._site(running, count, numbers)
        for (kind, foretold), those in alike.items():
            if foretold:
                drawn[kind, foretold] = self._known(those, within, count, numbers)
            else:
                drawn[kind, foretold] = self._strange(kind, those, within, site, numbers)
        return [{one: _duration(one, float(drawn[_group(one)][n]), within) for one in wanted} for n in range(count)]

    def _known(self, running: Sequence[Aged], within: float, count: int, numbers: np.random.Generator) -> Floats:
        """By how much what is foretold of a kind is off, in each world. A few are off by much: Student's t with three degrees."""
        weigh = -2.0 * np.log1p((_ERRORS / self._off()) ** 2 / 3.0)
        return _drawn(_ERRORS, np.tile(weigh + _outlived(running, within, _ERRORS), (count, 1)), numbers)

    def _strange(
        self, kind: KindId, running: Sequence[Aged], within: float, site: tuple[Floats, Floats],
        numbers: np.random.Generator,
    ) -> Floats:  # fmt: skip
        """Where a kind lies of which nothing is foretold, in each world."""
        centres, apart = site
        weigh = -0.5 * ((_PLACES - centres[:, None]) / apart[:, None]) ** 2 + _outlived(running, within, _PLACES)
        if (seen := self._seen.get(kind)) is not None:
            weigh = weigh - 0.5 * seen.count * ((_PLACES - seen.mean) / within) ** 2
        return _drawn(_PLACES, weigh, numbers)

    def _within(self) -> float:
        """The spread within kinds, over all that ended."""
        free = sum(seen.count - 1 for seen in self._seen.values())
        squares = sum(seen.squares for seen in self._seen.values())
        return math.sqrt((_SHOWN * _WITHIN**2 + squares) / (_SHOWN + free))

    def _off(self) -> float:
        """How far the foretold were off, each kind one voice."""
        errors = [seen.off / seen.foretold for seen in self._seen.values() if seen.foretold]
        return math.sqrt((_SHOWN * _OFF**2 + sum(error**2 for error in errors)) / (_SHOWN + len(errors)))

    def _site(self, running: Sequence[Aged], count: int, numbers: np.random.Generator) -> tuple[Floats, Floats]:
        """The site's centre and how far its kinds lie apart, in each world, each kind one voice: where it ended, or that it has
        outlived its oldest."""
        oldest: dict[KindId, float] = {}
        for one in running:
            if one.asked.kind not in self._seen:
                oldest[one.asked.kind] = max(oldest.get(one.asked.kind, 0.0), _log(one.elapsed_s))
        weigh = -0.5 * ((_CENTRES - _HOUR) / _OFF_HOUR) ** 2 - len(self._seen) * np.log(_APART)
        for seen in self._seen.values():
            weigh = weigh - 0.5 * ((seen.mean - _CENTRES) / _APART) ** 2
        for age in oldest.values():
            weigh = weigh + _log_below((_CENTRES - age) / _APART)
        which = _drawn(np.arange(float(weigh.size)), np.tile(weigh.ravel(), (count, 1)), numbers).astype(int)
        return _CENTRES.ravel()[which], _APART.ravel()[which]


def _group(asked: Asked) -> tuple[KindId, bool]:
    """Who errs together."""
    return asked.kind, asked.foretold is not None


def _duration(asked: Asked, drawn: float, within: float) -> Duration:
    foretold = asked.foretold
    p50_s = math.exp(drawn) * (foretold.p50_s if foretold else 1.0)
    return Duration(p50_s, p50_s * math.exp(_Z90 * max(within, foretold.sigma if foretold else 0.0)))


def _outlived(running: Sequence[Aged], within: float, grid: Floats) -> Floats:
    """The logarithm of how likely it is that all of these still run, for each value of the grid."""
    found = np.zeros(len(grid))
    for (_, foretold), elapsed_s in running:
        centre, sigma = (math.log(foretold.p50_s), max(within, foretold.sigma)) if foretold else (0.0, within)
        found += _log_below((centre + grid - _log(elapsed_s)) / sigma)
    return found


def _drawn(grid: Floats, weigh: Floats, numbers: np.random.Generator) -> Floats:
    """One value of the grid for each row of logarithms of weights."""
    shares = np.exp(weigh - weigh.max(axis=1, keepdims=True)).cumsum(axis=1)
    at = (shares < numbers.random((len(shares), 1)) * shares[:, -1:]).sum(axis=1)
    return np.asarray(grid[np.minimum(at, len(grid) - 1)])


def _log(seconds: float) -> float:
    return math.log(max(1.0, seconds))


def _log_normal(at: float) -> float:
    if at > -8:
        return math.log(math.erfc(-at / math.sqrt(2)) / 2)
    return -at * at / 2 - math.log(-at * math.sqrt(2 * math.pi)) + math.log1p(-1 / (at * at))


# numpy has no normal distribution function.
_AT: Floats = np.arange(-60.0, 8.01, 0.01)
_LOG: Floats = np.array([_log_normal(float(at)) for at in _AT])


def _log_below(at: Floats) -> Floats:
    """Logarithms of the probability that a standard normal is below; far out, by the asymptotic series."""
    return np.asarray(np.interp(at, _AT, _LOG))
