"""Linear programming: the assignment with fractions of options allowed, rounded.

Options are taken by their share in the solution, the largest first, and what is left over is filled greedily. What the
solution is worth before rounding is an upper bound of any plan.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpuq.core.scheduling.policy import Policy
from gpuq.policies.planners.batch import Batch, Numbers
from gpuq.policies.planners.plan import Plan, better, complete, greedy, planner, require_scipy
from gpuq.policies.planners.relaxed import relax
from gpuq.policies.spec import PolicySpec
from gpuq.settings import Scheduling

_NOTHING = 1e-6


def solve_linear(batch: Batch) -> Plan:
    """The rounded solution, or the greedy plan where that is worth more; `bound` is the solution's value before rounding."""
    start = greedy(batch)
    relaxed = relax(batch, start.chosen)
    if relaxed is None:
        return start
    return replace(better(rounded(batch, relaxed.shares), start), bound=relaxed.bound)


def rounded(batch: Batch, shares: Numbers) -> Plan:
    """Options by their share (m), the largest first, equal ones by what they are worth per device; then what still fits."""
    left, chosen = batch.capacity.copy(), []
    for option in np.lexsort((-batch.density, -np.round(shares, 6))):
        if shares[option] <= _NOTHING:
            break
        if (left[batch.rows[option]] >= batch.counts[option]).all():
            np.subtract.at(left, batch.rows[option], batch.counts[option])
            chosen.append(option)
    return Plan(batch, complete(batch, np.array(chosen, dtype=np.intp)))


def _make(scheduling: Scheduling) -> Policy:
    require_scipy("linear")
    return planner(solve_linear, scheduling)


SPEC = PolicySpec(
    "plans each pass as a linear program, rounded", _make, work_conserving=True, starvation_free=False, extra="train"
)
