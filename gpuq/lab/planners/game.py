"""The batch problem as a game for one player, so that a network can be trained to solve it.

Each turn is about the job whose best remaining option has the highest value per device. The player chooses one of up to CHOICES
options of that job that still fit, or puts the job aside. Admission allows every option of a batch, so the player cannot choose
what admission would refuse. A player that always takes the first choice plays the greedy plan.

Observations have one size whatever the batch, and consist mostly of ratios, so that a network trained on one site's jobs can play
those of another.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpuq.policies.planners.batch import NO_PARTNER, Batch, Indices, Numbers
from gpuq.policies.planners.plan import complete

Observation = NDArray[np.float32]

CHOICES = 8
SKIP = CHOICES
# The number of pairs among the choices, where there are enough options with and without a partner.
_PAIRS = 5
_UNKNOWN = -1.0
# Observations are clipped to this, since networks extrapolate badly.
BOUND = 5.0
# What each number of an observation means: first about the turn, then about each choice. Scales bring typical values near 1.
ABOUT_TURN = (
    "log of the forecast seconds / 12", "peak utilisation / 100", "GiB needed / 32", "devices wanted / 8",
    "worth of the best choice per device / mean of the greedy plan, log10 / 3", "share of devices left",
    "jobs left per device left, log10 / 2", "next job's worth per device / this one's",
)  # fmt: skip
ABOUT_CHOICE = (
    "there is one", "worth per device / the best choice's", "it is a pair", "second's part of the worth",
    "idle", "percent committed / 100", "devices / 8", "this job's best elsewhere, alone / worth",
    "second's best elsewhere, alone / worth", "worth of the last job that would still fit alone / worth per device",
    "the same, with two to a device", "devices left in the slot / 8",
    "worth of the best gang that would no longer fit / worth",
)  # fmt: skip
SIZE = len(ABOUT_TURN) + CHOICES * len(ABOUT_CHOICE)


class Game:
    """One episode, which ends when no option fits any more."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._left = batch.capacity.copy()
        self._chosen: list[int] = []
        self._alive = np.argsort(-batch.density, kind="stable")
        self._alone = _alone(batch)
        greedy = complete(batch, np.empty(0, dtype=np.intp))
        self._usual = max(float(batch.value[greedy].sum()) / max(int(batch.devices[greedy].sum()), 1), 1e-9)
        self._choices = np.empty(0, dtype=np.intp)
        self._turn()

    @property
    def over(self) -> bool:
        """Whether the episode has ended."""
        return not self._alive.size

    @property
    def plan(self) -> Indices:
        """The chosen options, completed greedily: jobs that were put aside get what is left."""
        return complete(self._batch, np.array(self._chosen, dtype=np.intp))

    def allowed(self) -> NDArray[np.bool_]:
        """Which actions are possible (CHOICES + 1): each choice that there is, and the last, SKIP, to put the job aside."""
        return np.append(np.arange(CHOICES) < len(self._choices), not self.over)

    def act(self, action: int) -> None:
        """Take a choice or, with SKIP, put the job aside. An action beyond the choices takes the first one."""
        if self.over:
            return
        batch, job = self._batch, self._job
        if action == SKIP:
            self._alive = self._alive[batch.first[self._alive] != job]
        else:
            option = self._choices[action if action < len(self._choices) else 0]
            np.subtract.at(self._left, batch.rows[option], batch.counts[option])
            self._chosen.append(int(option))
            self._alive = self._alive[batch.fit(self._alive, self._left)]
        self._turn()

    def observe(self) -> Observation:
        """The observation (SIZE) of `ABOUT_TURN` and `ABOUT_CHOICE`: 0 where there is no choice, -1 for unknown values."""
        observed = np.zeros(SIZE)
        if not self.over:
            observed[: len(ABOUT_TURN)] = self._about_turn()
            for at, option in enumerate(self._choices):
                begin = len(ABOUT_TURN) + at * len(ABOUT_CHOICE)
                observed[begin : begin + len(ABOUT_CHOICE)] = self._about(int(option))
        return np.clip(np.nan_to_num(observed, nan=_UNKNOWN), -BOUND, BOUND).astype(np.float32)

    def _turn(self) -> None:
        """Set the job of the turn and its choices, the one with the highest value per device first."""
        if self.over:
            self._choices = self._alive
            return
        batch, alive = self._batch, self._alive
        self._job = int(batch.first[alive[0]])
        mine = alive[(batch.first[alive] == self._job) | (batch.second[alive] == self._job)]
        self._gangs = alive[batch.devices[alive] > 1]
        paired = batch.second[mine] != NO_PARTNER
        alone = np.flatnonzero(~paired)[: max(CHOICES - _PAIRS, CHOICES - int(paired.sum()))]
        pairs = np.flatnonzero(paired)[: CHOICES - len(alone)]
        self._choices = mine[np.sort(np.concatenate((alone, pairs)))]

    def _about_turn(self) -> list[float]:
        batch, job, n = self._batch, self._job, len(self._batch.jobs)
        duration, load, memory, devices, _ = batch.job_features[job]
        best = batch.density[self._choices[0]]
        others = self._alive[batch.first[self._alive] != job]
        left = self._left[n:]
        waiting, open_devices = int((self._left[:n] > 0).sum()), max(int(left.sum()), 1)
        return [
            np.log1p(duration) / 12, load / 100, memory / 32, devices / 8,
            np.log10(max(best, 1e-12) / self._usual) / 3, left.sum() / max(batch.capacity[n:].sum(), 1),
            np.log10(waiting / open_devices) / 2, batch.density[others[0]] / best if others.size else 0.0,
        ]  # fmt: skip

    def _about(self, option: int) -> list[float]:
        batch, n = self._batch, len(self._batch.jobs)
        value, density, second = float(batch.value[option]), float(batch.density[option]), int(batch.second[option])
        slot = self._slot(option)
        left = int(self._left[n + slot])
        _, idle, committed = batch.slot_features[slot]
        rivals = self._rivals(slot, second)
        # A pair is an option of both its jobs. The partner is the one that the turn is not about.
        other = NO_PARTNER if second == NO_PARTNER else int(batch.first[option]) if second == self._job else second
        part = float(batch.worth[option, 0 if other == batch.first[option] else 1]) if other != NO_PARTNER else 0.0
        return [
            1.0, density / float(batch.density[self._choices[0]]), float(other != NO_PARTNER), part / value,
            idle, committed / 100, batch.devices[option] / 8, self._elsewhere(self._job, slot) / value,
            self._elsewhere(other, slot) / value if other != NO_PARTNER else 0.0,
            _ranked(rivals, left) / density, _ranked(rivals, 2 * left) / density, left / 8,
            self._displaced(option) / value,
        ]  # fmt: skip

    def _slot(self, option: int) -> int:
        """The slot that the option uses; the first one of a gang."""
        n = len(self._batch.jobs)
        rows = self._batch.rows[option][self._batch.counts[option] > 0]
        return int(rows[rows >= n][0]) - n

    def _rivals(self, slot: int, second: int) -> Numbers:
        """The value of each other waiting job alone on the slot, descending."""
        there = np.where(self._left[: len(self._batch.jobs)] > 0, self._alone[:, slot], 0.0)
        there[self._job] = 0.0
        if second != NO_PARTNER:
            there[second] = 0.0
        return -np.sort(-there)

    def _displaced(self, option: int) -> float:
        """The value of the best option of another gang that would no longer fit after this option."""
        batch = self._batch
        if not self._gangs.size:
            return 0.0
        left = self._left.copy()
        np.subtract.at(left, batch.rows[option], batch.counts[option])
        others = self._gangs[batch.first[self._gangs] != self._job]
        lost = others[~batch.fit(others, left)]
        return float(batch.value[lost].max(initial=0.0))

    def _elsewhere(self, job: int, slot: int) -> float:
        """The value of the job alone on the best other slot with devices left."""
        n = len(self._batch.jobs)
        there = np.where(self._left[n:] > 0, self._alone[job], 0.0)
        there[slot] = 0.0
        return float(there.max())


def _ranked(rivals: Numbers, rank: int) -> float:
    """The value of the rival of this rank, counted from 1; 0 if there are fewer."""
    return float(rivals[rank - 1]) if 0 < rank <= len(rivals) else 0.0


def _alone(batch: Batch) -> Numbers:
    """The value of each job alone on one device of each slot (n, s); 0 where it may not run so, as a gang never may."""
    n, values = len(batch.jobs), np.zeros((len(batch.jobs), len(batch.slots)))
    single = np.flatnonzero((batch.second == NO_PARTNER) & (batch.devices == 1))
    slots = np.where((batch.counts[single] > 0) & (batch.rows[single] >= n), batch.rows[single] - n, -1).max(axis=1)
    usable = slots >= 0
    np.maximum.at(values, (batch.first[single][usable], slots[usable]), batch.value[single][usable])
    return values
