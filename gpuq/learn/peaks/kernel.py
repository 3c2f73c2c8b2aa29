"""How alike two jobs are, term by term: the covariance of what they need.

Arrives: traits. Leaves: matrices, rows by columns. A term is a group of words times a shape. The group says between which
jobs something is shared (all, those of one script, of one model, ...): the cosine of their sets of words. The shape says
what is shared: a level, or a trend along a number. Sums and products of such terms are covariances again (Rasmussen and
Williams, Gaussian Processes for Machine Learning, 2006, section 4.2.4), so any mixture with variances above zero will do.

Along log2 batch there are two: a slope, which carries on beyond what was measured, and a walk (Brownian motion), which by
itself interpolates linearly between what was measured and stays level beyond. Along the size of a model a slope.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from gpuq.learn.peaks.traits import GROUPS, NUMBERS, TEMPLATE, Traits

Matrix = np.ndarray[tuple[int, ...], np.dtype[np.float64]]

ALL = "all"
GROUP_NAMES = (*GROUPS, TEMPLATE)
SHAPES = ("level", "batch", "walk", "size")
# Where a slope has no say, and what is one unit of it: batch 64 and four doublings; a product of 256 and three.
_CENTRES = {"batch": (6.0, 4.0), "size": (8.0, 3.0)}
# A batch of one is where the walk sets out.
_WALK_FROM, _WALK_UNIT = -1.0, 4.0
TERMS = tuple(f"{group}/{shape}" for group, shape in product((ALL, *GROUP_NAMES), SHAPES))


@dataclass(frozen=True, slots=True)
class Side:
    """Jobs made ready for a kernel: per group which of its different sets of words each job has, and the numbers."""

    sets: tuple[tuple[frozenset[str], ...], ...]
    which: tuple[np.ndarray[tuple[int], np.dtype[np.intp]], ...]
    numbers: Matrix
    """One row per job, NaN for unknown."""

    @classmethod
    def of(cls, jobs: Sequence[Traits]) -> Side:
        """The side that these jobs make."""
        sets, which = [], []
        for group in range(len(GROUP_NAMES)):
            places: dict[frozenset[str], int] = {}
            found = [places.setdefault(job.words[group], len(places)) for job in jobs]
            sets.append(tuple(places))
            which.append(np.array(found, dtype=np.intp))
        numbers = np.array([job.numbers for job in jobs], dtype=np.float64).reshape(len(jobs), len(NUMBERS))
        return cls(tuple(sets), tuple(which), numbers)

    def __len__(self) -> int:
        return len(self.numbers)


def likenesses(one: Side, other: Side) -> dict[str, Matrix]:
    """Group -> the cosine of the sets of words of each job of one side and each of the other; `all` is 1."""
    found: dict[str, Matrix] = {ALL: np.ones((len(one), len(other)))}
    for place, group in enumerate(GROUP_NAMES):
        small = _cosines(one.sets[place], other.sets[place])
        found[group] = small[np.ix_(one.which[place], other.which[place])]
    return found


def shapes(one: Side, other: Side) -> dict[str, Matrix | float]:
    """Shape -> its factor for each job of one side and each of the other."""
    walk_one, walk_other = (
        np.maximum(0.0, (_plain(side, 0, _WALK_FROM) - _WALK_FROM) / _WALK_UNIT) for side in (one, other)
    )
    return {
        "level": 1.0,
        "batch": np.outer(_slope(one, "batch"), _slope(other, "batch")),
        "walk": np.minimum(walk_one[:, None], walk_other[None, :]),
        "size": np.outer(_slope(one, "size"), _slope(other, "size")),
    }


def terms(one: Side, other: Side, wanted: Sequence[str] = TERMS) -> dict[str, Matrix]:
    """Term -> its matrix."""
    like, shape = likenesses(one, other), shapes(one, other)
    split = {term: term.split("/") for term in wanted}
    return {term: like[group] * shape[form] for term, (group, form) in split.items()}


def covariance(one: Side, other: Side, variances: dict[str, float]) -> Matrix:
    """The sum of all terms, each with its variance."""
    like, shape = likenesses(one, other), shapes(one, other)
    total = np.zeros((len(one), len(other)))
    for group, alike in like.items():
        factors = [variances[f"{group}/{form}"] * shape[form] for form in SHAPES if f"{group}/{form}" in variances]
        if factors:
            total += alike * sum(factors)
    return total


def diagonal(side: Side, variances: dict[str, float]) -> Matrix:
    """The covariance of each job with itself."""
    batch, size = _slope(side, "batch"), _slope(side, "size")
    walk = np.maximum(0.0, (_plain(side, 0, _WALK_FROM) - _WALK_FROM) / _WALK_UNIT)
    shape = {"level": np.ones(len(side)), "batch": batch**2, "walk": walk, "size": size**2}
    total = np.zeros(len(side))
    for term, variance in variances.items():
        group, form = term.split("/")
        total += variance * shape[form] * (1.0 if group == ALL else _present(side, GROUP_NAMES.index(group)))
    return total


def _cosines(one: Sequence[frozenset[str]], other: Sequence[frozenset[str]]) -> Matrix:
    """Shared words over the geometric mean of how many each has; nothing is like no words at all."""
    places: dict[str, list[int]] = {}
    for place, words in enumerate(other):
        for word in words:
            places.setdefault(word, []).append(place)
    shared = np.zeros((len(one), len(other)))
    for row, words in zip(shared, one, strict=True):
        for word in words:
            row[places.get(word, [])] += 1.0
    lengths_one, lengths_other = (np.array([max(1, len(words)) for words in side]) for side in (one, other))
    return np.asarray(shared / np.sqrt(np.outer(lengths_one, lengths_other)))


def _present(side: Side, place: int) -> Matrix:
    return np.array([float(bool(words)) for words in side.sets[place]])[side.which[place]]


def _slope(side: Side, number: str) -> Matrix:
    centre, unit = _CENTRES[number]
    return (_plain(side, NUMBERS.index(number), centre) - centre) / unit


def _plain(side: Side, column: int, unknown: float) -> Matrix:
    return np.nan_to_num(side.numbers[:, column], nan=unknown)
