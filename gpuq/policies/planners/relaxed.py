"""The linear relaxation of the batch problem: x[o] may be any fraction. Solved by HiGHS through SciPy.

    maximise    sum of value[o] * x[o]
    subject to  sum of use[r, o] * x[o] <= capacity[r],  x[o] >= 0

A batch has thousands of pairs of which a few dozen are chosen, so pairs are added by column generation (Gilmore and Gomory,
Operations Research 9, 1961): solve with some of them, price the others by the dual prices p of the resources, add those with a
positive reduced cost value[o] - sum of use[r, o] * p[r], and repeat.

The prices also give an upper bound of any plan, and the options that no better plan than a known one can contain (fixing by
reduced cost; Dantzig, Fulkerson and Johnson, Operations Research 2, 1954).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuq.policies.planners.batch import NO_PARTNER, Batch, Indices, Numbers

_FIRST_PAIRS = 400
_MORE_PAIRS = 400
# After so many rounds the bound is completed from the prices found so far, and is valid though not the tightest.
_MOST_ROUNDS = 20
# Tolerance relative to the value of the solution.
_EXACT = 1e-9


@dataclass(frozen=True)
class Relaxed:
    """`shares` (m): the fraction of each option. `bound`: no plan has a higher value. `gains` (m): reduced costs, at most 0; a
    plan that contains option o has a value of at most `bound + gains[o]`."""

    shares: Numbers
    bound: float
    gains: Numbers

    def worth_a_look(self, known: float) -> NDArray[np.bool_]:
        """Which options (m) a plan with a higher value than `known` may contain."""
        return np.asarray(self.bound + self.gains > known * (1 - _EXACT))


def relax(batch: Batch, start: Indices) -> Relaxed | None:
    """The optimum of the relaxation. `start` are options to begin with, such as those of a greedy plan.

    None for a batch without options, and where the solver fails.
    """
    from scipy.optimize import linprog

    if not batch.size:
        return None
    matrix = uses(batch)
    # Begin with all options of one job and the most valuable pairs.
    wanted = np.asarray(batch.second == NO_PARTNER)
    pairs = np.flatnonzero(~wanted)
    wanted[pairs[np.argsort(-batch.value[pairs], kind="stable")[:_FIRST_PAIRS]]] = True
    wanted[start] = True
    for _ in range(_MOST_ROUNDS):
        taken = np.flatnonzero(wanted)
        # x <= 1 needs no constraint, because an option uses its job, of which there is one.
        solution = linprog(
            -batch.value[taken], A_ub=matrix[:, taken], b_ub=batch.capacity, bounds=(0, None), method="highs"
        )
        if solution.x is None:
            return None
        prices: Numbers = -solution.ineqlin.marginals
        gains = batch.value - matrix.T @ prices
        missing = np.flatnonzero((gains > _EXACT * max(1.0, float(batch.capacity @ prices))) & ~wanted)
        if not len(missing):
            break
        wanted[missing[np.argsort(-gains[missing], kind="stable")[:_MORE_PAIRS]]] = True
    shares = np.zeros(batch.size)
    shares[taken] = solution.x
    return _with_bound(batch, shares, prices, gains)


def uses(batch: Batch) -> Any:
    """How much of each resource (rows) each option (columns) uses, as SciPy's sparse array (n + s, m)."""
    from scipy.sparse import coo_array

    options = np.repeat(np.arange(batch.size), batch.rows.shape[1])
    shape = (len(batch.capacity), batch.size)
    return coo_array((batch.counts.ravel().astype(np.float64), (batch.rows.ravel(), options)), shape=shape).tocsc()


def _with_bound(batch: Batch, shares: Numbers, prices: Numbers, gains: Numbers) -> Relaxed:
    """Makes the prices dual feasible, which makes their total a valid bound even if column generation ended early.

    Every option uses its first job, of which there is one: raising that job's price by the largest positive reduced cost among
    its options leaves none positive.
    """
    raised = np.zeros(len(batch.jobs))
    np.maximum.at(raised, batch.first, gains)
    joins = batch.second != NO_PARTNER
    cheaper = gains - raised[batch.first] - np.where(joins, raised[np.maximum(batch.second, 0)], 0.0)
    return Relaxed(shares, float(batch.capacity @ prices + raised.sum()), np.minimum(cheaper, 0.0))
