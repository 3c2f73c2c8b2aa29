"""The assignment with fractions of options allowed: a linear program, solved by HiGHS, and what follows from it for whole ones.

Thousands of pairs are possible and a few dozen are chosen, so pairs are brought in as the prices of jobs and seats call for
them (column generation; Gilmore and Gomory, Operations Research 9, 1961). The prices also tell which options no better plan can
hold (fixing by reduced cost; Dantzig, Fulkerson and Johnson, Operations Research 2, 1954).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuq.policies.planners.batch import NO_PARTNER, Batch, Indices, Numbers

_FIRST_PAIRS = 400
_MORE_PAIRS = 400
_MOST_ROUNDS = 20
# Relative to what the whole solution is worth.
_EXACT = 1e-9


@dataclass(frozen=True)
class Relaxed:
    """`shares` (m): how much of each option. `bound`: no plan is worth more. `gains` (m): what an option is worth beyond the
    prices of what it takes, at most 0; a plan that holds it is worth at most `bound` plus that."""

    shares: Numbers
    bound: float
    gains: Numbers

    def worth_a_look(self, known: float) -> NDArray[np.bool_]:
        """Which options (m) a plan worth more than a known one may hold."""
        return np.asarray(self.bound + self.gains > known * (1 - _EXACT))


def relax(batch: Batch, start: Indices) -> Relaxed | None:
    """The best mixture of options; `start` are pairs to begin with. None where there are none, and where the
    solver gives up."""
    if not batch.size:
        return None
    matrix, wanted = uses(batch), _first(batch, start)
    for _ in range(_MOST_ROUNDS):
        taken = np.flatnonzero(wanted)
        solution = _solve(batch, matrix, taken)
        if solution is None:
            return None
        shares, prices = solution
        gains = batch.value - matrix.T @ prices
        missing = np.flatnonzero((gains > _EXACT * max(1.0, float(batch.capacity @ prices))) & ~wanted)
        if not len(missing):
            break
        wanted[missing[np.argsort(-gains[missing], kind="stable")[:_MORE_PAIRS]]] = True
    whole = np.zeros(batch.size)
    whole[taken] = shares
    return _settled(batch, whole, prices, gains)


def uses(batch: Batch) -> Any:
    """How much of each room (rows) each option (columns) takes: SciPy's sparse array (n + s, m)."""
    from scipy.sparse import coo_array

    options = np.repeat(np.arange(batch.size), batch.rows.shape[1])
    shape = (len(batch.capacity), batch.size)
    return coo_array((batch.counts.ravel().astype(np.float64), (batch.rows.ravel(), options)), shape=shape).tocsc()


def _first(batch: Batch, start: Indices) -> NDArray[np.bool_]:
    """All options of one job, and the pairs worth most."""
    taken = batch.second == NO_PARTNER
    pairs = np.flatnonzero(~taken)
    taken[pairs[np.argsort(-batch.value[pairs], kind="stable")[:_FIRST_PAIRS]]] = True
    taken[start] = True
    return np.asarray(taken)


def _solve(batch: Batch, matrix: Any, taken: Indices) -> tuple[Numbers, Numbers] | None:
    """(shares of the options taken, price of each room) at the optimum."""
    from scipy.optimize import linprog

    # A job starts once, so no share exceeds 1 anyway.
    found = linprog(-batch.value[taken], A_ub=matrix[:, taken], b_ub=batch.capacity, bounds=(0, None), method="highs")
    return None if found.x is None else (found.x, -found.ineqlin.marginals)


def _settled(batch: Batch, shares: Numbers, prices: Numbers, gains: Numbers) -> Relaxed:
    """Where pairs are still worth more than they cost, the price of who would start is raised by that: a bound all the same."""
    raised = np.zeros(len(batch.jobs))
    np.maximum.at(raised, batch.first, gains)
    joins = batch.second != NO_PARTNER
    cheaper = gains - raised[batch.first] - np.where(joins, raised[np.maximum(batch.second, 0)], 0.0)
    return Relaxed(shares, float(batch.capacity @ prices + raised.sum()), np.minimum(cheaper, 0.0))
