"""Linear programming: the assignment with fractions of options allowed, solved by HiGHS, then rounded.

Gives an upper bound of what any plan can be worth, too. Options are taken by their share in the solution, the largest first,
and what is left over is filled greedily.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuq.core.policy import Policy
from gpuq.policies.batch import Batch, Numbers
from gpuq.policies.plan import Plan, better, complete, greedy, planner, require_scipy
from gpuq.policies.recipe import Recipe
from gpuq.settings import Scheduling

_NOTHING = 1e-6


def solve_linear(batch: Batch) -> Plan:
    """The rounded solution, or the greedy plan where that is worth more; its bound is the unrounded one's value."""
    from scipy.optimize import linprog

    solution = linprog(-batch.value, A_ub=matrix(batch), b_ub=batch.room, bounds=(0, 1), method="highs")
    start = greedy(batch)
    if solution.x is None:
        return start
    plan = better(rounded(batch, solution.x), start)
    return Plan(batch, plan.chosen, bound=float(-solution.fun))


def rounded(batch: Batch, shares: Numbers) -> Plan:
    """Options by their share (m), the largest first, equal ones by what they are worth per device; then what still fits."""
    left, chosen = batch.room.copy(), []
    for option in np.lexsort((-batch.density, -np.round(shares, 6))):
        if shares[option] <= _NOTHING:
            break
        if (left[batch.rows[option]] >= batch.counts[option]).all():
            np.subtract.at(left, batch.rows[option], batch.counts[option])
            chosen.append(option)
    return Plan(batch, complete(batch, np.array(chosen, dtype=np.intp)))


def matrix(batch: Batch) -> Any:
    """How much of each room (rows) each option (columns) takes, as SciPy's sparse array (n + s, m)."""
    from scipy.sparse import coo_array

    options = np.repeat(np.arange(batch.size), batch.rows.shape[1])
    shape = (len(batch.room), batch.size)
    return coo_array((batch.counts.ravel().astype(np.float64), (batch.rows.ravel(), options)), shape=shape).tocsc()


def _make(scheduling: Scheduling) -> Policy:
    require_scipy("linear")
    return planner(solve_linear, scheduling.plan_jobs)


RECIPE = Recipe(
    "plans each pass as a linear program, rounded", _make, work_conserving=True, starvation_free=False, extra="train"
)
