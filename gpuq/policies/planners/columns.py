"""The options of a batch as they are gathered: pieces of arrays, put together at the end.

The rows of a batch are its jobs and then its seats; an option names the job or jobs, and how much of which seat it takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gpuq.policies.planners.batch import NO_PARTNER, Indices, Numbers


@dataclass(frozen=True)
class Options:
    """Some options, as `Batch` has them."""

    value: Numbers
    worth: Numbers
    first: Indices
    second: Indices
    devices: Indices
    rows: Indices
    counts: Indices


class Columns:
    """Options as they are gathered, in pieces; n jobs come first among the rows."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._pieces: list[Options] = []
        self._add(np.empty(0), np.empty((0, 2)), np.empty(0, np.intp), np.empty(0, np.intp), 0)

    def add_alone(self, worth: Numbers, loss: float | Numbers, first: Indices, slot: int) -> None:
        """One job each, on one device of one seat."""
        both = np.zeros((len(worth), 2))
        both[:, 0] = worth
        self._add(worth - loss, both, first, np.full(len(first), NO_PARTNER, np.intp), slot)

    def add_pairs(self, worth: Numbers, first: Indices, second: Indices, slot: int) -> None:
        """Two jobs each, on one device of one seat."""
        self._add(worth.sum(axis=1), worth, first, second, slot)

    def add_gang(self, worth: float, loss: float, job: int, devices: int, uses: Mapping[int, int]) -> None:
        """One job on several devices."""
        one = np.ones(1, dtype=np.intp)
        rows = np.array([[job, *(self._jobs + slot for slot in uses)]], dtype=np.intp)
        counts = np.array([[1, *uses.values()]], dtype=np.intp)
        value, parts = np.array([worth - loss]), np.array([[worth, 0.0]])
        self._pieces.append(Options(value, parts, one * job, one * NO_PARTNER, one * devices, rows, counts))

    def whole(self) -> Options:
        """All pieces together."""
        width = max(piece.rows.shape[1] for piece in self._pieces)
        return Options(
            value=np.concatenate([piece.value for piece in self._pieces]),
            worth=np.concatenate([piece.worth for piece in self._pieces]),
            first=np.concatenate([piece.first for piece in self._pieces]),
            second=np.concatenate([piece.second for piece in self._pieces]),
            devices=np.concatenate([piece.devices for piece in self._pieces]),
            rows=np.concatenate([_padded(piece.rows, width) for piece in self._pieces]),
            counts=np.concatenate([_padded(piece.counts, width) for piece in self._pieces]),
        )

    def _add(self, value: Numbers, worth: Numbers, first: Indices, second: Indices, slot: int) -> None:
        m = len(value)
        if self._pieces and not m:
            return
        rows = np.empty((m, 3), dtype=np.intp)
        rows[:, 0], rows[:, 1], rows[:, 2] = first, np.maximum(second, 0), self._jobs + slot
        counts = np.ones((m, 3), dtype=np.intp)
        counts[:, 1] = second != NO_PARTNER
        self._pieces.append(Options(value, worth, first, second, np.ones(m, dtype=np.intp), rows, counts))


def _padded(array: Indices, width: int) -> Indices:
    if array.shape[1] == width:
        return array
    wide = np.zeros((len(array), width), dtype=np.intp)
    wide[:, : array.shape[1]] = array
    return wide
