"""The covariance between jobs of what they need, as a sum of terms.

A term is a group of words times a shape. The group says between which jobs something is shared (all, those of one script, of
one model, ...): the cosine of their sets of words. The shape says what is shared: a level, or a trend along a number. Sums
and products of such terms are covariances again (Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006,
section 4.2.4), so any mixture with variances from zero up is valid.

Along log2 batch there are two shapes: a slope, which extrapolates, and a walk (Brownian motion), whose posterior mean
interpolates linearly between what was measured and stays level beyond. There is one slope along the size of a model and one
along log2 of the work per sample.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from gpuq.learn.features.inputs import GROUPS, NUMBERS, TEMPLATE, JobInputs

Matrix = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
Places = np.ndarray[tuple[int, ...], np.dtype[np.intp]]

# The first group contains all jobs; the others are fields of `JobInputs`.
GROUP_NAMES = ("all", *GROUPS, TEMPLATE)
SHAPES = ("level", "batch", "size", "compute", "walk")
# Zero and unit of each slope: batch 64 and four doublings; a product of 256 and three; 2^30 multiply-adds and four.
_CENTRES = np.array([6.0, 8.0, 30.0])
_UNITS = np.array([4.0, 3.0, 4.0])
# The walk starts one halving below a batch of one, a quarter of a unit, so that a batch of one has some variance.
_WALK_FROM, _WALK_UNIT = -1.0, 4.0


class KernelInputs:
    """Jobs prepared as the rows or columns of a covariance matrix."""

    def __init__(self, jobs: Sequence[JobInputs]) -> None:
        self.sets: list[list[frozenset[str]]] = []
        """Per group of words: the different sets of them."""
        self.which: list[Places] = []
        """Per group of words: which of those sets each job has."""
        for group in GROUP_NAMES[1:]:
            places: dict[frozenset[str], int] = {}
            which = [places.setdefault(getattr(job, group), len(places)) for job in jobs]
            self.which.append(np.array(which, dtype=np.intp))
            self.sets.append(list(places))
        numbers = np.array([job.numbers for job in jobs], dtype=np.float64).reshape(len(jobs), len(NUMBERS))
        slopes = (numbers - _CENTRES) / _UNITS
        self.design = np.concatenate([np.ones((len(jobs), 1)), np.where(np.isnan(slopes), 0.0, slopes)], axis=1)
        """Per job: 1, then where it is along each slope; 0 for an unknown number."""
        walked = np.maximum(0.0, (numbers[:, 0] - _WALK_FROM) / _WALK_UNIT)
        self.walked: Matrix = np.where(np.isnan(walked), 0.0, walked)
        """Per job: how far the walk has come; 0 for an unknown batch."""

    def __len__(self) -> int:
        return len(self.design)

    @cached_property
    def present(self) -> Matrix:
        """Per job and group, "all" first: 1 where it has words of that group, else 0."""
        some = [
            np.array([float(bool(words)) for words in sets])[which]
            for sets, which in zip(self.sets, self.which, strict=True)
        ]
        return np.stack([np.ones(len(self)), *some], axis=1)

    @cached_property
    def lengths(self) -> list[Matrix]:
        """Per group: the square root of the number of words in each set, 1 for an empty set."""
        return [np.sqrt(np.array([max(1, len(words)) for words in sets], dtype=np.float64)) for sets in self.sets]

    @cached_property
    def where(self) -> list[dict[str, Places]]:
        """Per group: word -> indices of the sets that contain it."""
        found: list[dict[str, list[int]]] = []
        for sets in self.sets:
            found.append({})
            for place, words in enumerate(sets):
                for word in words:
                    found[-1].setdefault(word, []).append(place)
        return [{word: np.array(places, dtype=np.intp) for word, places in group.items()} for group in found]


class CrossSimilarity:
    """What the jobs of one side share with those of the other, before the terms' variances are applied.

    Serving uses single precision (`quick`): 7 digits are more than any measurement has, and half the work.
    """

    def __init__(self, one: KernelInputs, other: KernelInputs, *, quick: bool = False) -> None:
        number = np.float32 if quick else np.float64
        self._one, self._other = one.design.astype(number), other.design.astype(number)
        self._alike = [None, *(_alike(one, other, group, number) for group in range(len(GROUP_NAMES) - 1))]
        self._together = np.minimum(one.walked[:, None].astype(number), other.walked[None, :].astype(number))

    def covariance(self, variances: Matrix) -> Matrix:
        """The sum of all terms; `variances` as `table` gives them."""
        total: Matrix = np.zeros_like(self._together)
        for alike, weights in zip(self._alike, variances.astype(total.dtype), strict=True):
            if not weights.any():
                continue
            if not weights[1:].any():
                total += weights[0] if alike is None else weights[0] * alike
                continue
            shape = (self._one * weights[:-1]) @ self._other.T
            if weights[-1]:
                shape += weights[-1] * self._together
            total += shape if alike is None else np.multiply(alike, shape, out=shape)
        return total

    def terms(self) -> dict[str, Matrix]:
        """Term -> its matrix for a variance of one."""
        columns = zip(self._one.T, self._other.T, strict=True)
        forms = [*(one[:, None] * other for one, other in columns), self._together]
        pairs = product(zip(GROUP_NAMES, self._alike, strict=True), zip(SHAPES, forms, strict=True))
        return {f"{group}/{shape}": form if like is None else like * form for (group, like), (shape, form) in pairs}


def table(variances: Mapping[str, float]) -> Matrix:
    """Variances by term as a matrix of groups by shapes; 0 for a term that is not given."""
    return np.array([[variances.get(f"{group}/{shape}", 0.0) for shape in SHAPES] for group in GROUP_NAMES])


def diagonal(side: KernelInputs, variances: Matrix) -> Matrix:
    """The variance of each job: its covariance with itself."""
    shapes = np.concatenate([side.design**2, side.walked[:, None]], axis=1)
    return np.asarray(np.einsum("ij,ij->i", side.present, shapes @ variances.T))


def _alike(one: KernelInputs, other: KernelInputs, group: int, number: type[np.floating[Any]]) -> Matrix:
    """The cosine between sets of words: shared words over the geometric mean of the sizes of both sets."""
    shared: Matrix = np.zeros((len(one.sets[group]), len(other.sets[group])), dtype=number)
    where = other.where[group]
    for row, words in zip(shared, one.sets[group], strict=True):
        for word in words:
            places = where.get(word)
            if places is not None:
                row[places] += 1.0
    shared /= one.lengths[group][:, None]
    shared /= other.lengths[group]
    return np.asarray(shared[:, other.which[group]][one.which[group]])
