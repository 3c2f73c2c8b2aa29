"""Collects the options of a batch in pieces and joins the pieces into arrays at the end.

A batch may have tens of thousands of options, so they are added as arrays, not one by one.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gpuq.policies.planners.batch import NO_PARTNER, Indices, Numbers, Options


class OptionColumns:
    """Options of a batch with so many `jobs`, as they are collected."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        # The empty piece gives the arrays their types where no option is added.
        self._pieces = [
            self._on_one_device(np.empty(0), np.empty((0, 2)), np.empty(0, np.intp), np.empty(0, np.intp), 0)
        ]

    def add_alone(self, worth: Numbers, loss: float | Numbers, first: Indices, slot: int) -> None:
        """Options that each start one job on one device of the slot."""
        both = np.zeros((len(worth), 2))
        both[:, 0] = worth
        partner = np.full(len(first), NO_PARTNER, np.intp)
        self._pieces.append(self._on_one_device(worth - loss, both, first, partner, slot))

    def add_pairs(self, worth: Numbers, first: Indices, second: Indices, slot: int) -> None:
        """Options that each start two jobs on one device of the slot; `worth` (k, 2)."""
        self._pieces.append(self._on_one_device(worth.sum(axis=1), worth, first, second, slot))

    def add_gang(self, worth: float, loss: float, job: int, devices: int, uses: Mapping[int, int]) -> None:
        """An option that starts one job on several devices; `uses` has the number of devices by slot."""
        one = np.ones(1, dtype=np.intp)
        rows = np.array([[job, *(self._jobs + slot for slot in uses)]], dtype=np.intp)
        counts = np.array([[1, *uses.values()]], dtype=np.intp)
        value, parts = np.array([worth - loss]), np.array([[worth, 0.0]])
        self._pieces.append(Options(value, parts, one * job, one * NO_PARTNER, one * devices, rows, counts))

    def joined(self) -> Options:
        """All options that were added."""
        width = max(piece.rows.shape[1] for piece in self._pieces)

        def padded(array: Indices) -> Indices:
            # Most pieces are as wide as the widest, and np.pad would take longer than the rest of this function.
            missing = width - array.shape[1]
            return np.hstack((array, np.zeros((len(array), missing), dtype=np.intp))) if missing else array

        return Options(
            value=np.concatenate([piece.value for piece in self._pieces]),
            worth=np.concatenate([piece.worth for piece in self._pieces]),
            first=np.concatenate([piece.first for piece in self._pieces]),
            second=np.concatenate([piece.second for piece in self._pieces]),
            devices=np.concatenate([piece.devices for piece in self._pieces]),
            rows=np.concatenate([padded(piece.rows) for piece in self._pieces]),
            counts=np.concatenate([padded(piece.counts) for piece in self._pieces]),
        )

    def _on_one_device(self, value: Numbers, worth: Numbers, first: Indices, second: Indices, slot: int) -> Options:
        m = len(value)
        rows = np.empty((m, 3), dtype=np.intp)
        # Where there is no second job its column counts 0, of any valid row.
        rows[:, 0], rows[:, 1], rows[:, 2] = first, np.maximum(second, 0), self._jobs + slot
        counts = np.ones((m, 3), dtype=np.intp)
        counts[:, 1] = second != NO_PARTNER
        return Options(value, worth, first, second, np.ones(m, dtype=np.intp), rows, counts)
