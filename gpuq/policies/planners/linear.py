"""Linear programming: the relaxation of the batch problem (see `relaxed.py`), rounded to a plan.

Options are taken by their fraction in the solution, the largest first, as long as they fit; the rest is filled up greedily. The
value of the solution before rounding is an upper bound of any plan.
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

# Smaller fractions are rounding errors of the solver.
_ZERO = 1e-6


def solve_linear(batch: Batch) -> Plan:
    """The better of the rounded solution and the greedy plan, with the relaxation's bound."""
    start = greedy(batch)
    relaxed = relax(batch, start.chosen)
    if relaxed is None:
        return start
    return replace(better(rounded(batch, relaxed.shares), start), bound=relaxed.bound)


def rounded(batch: Batch, shares: Numbers) -> Plan:
    """The plan of the options with the largest fractions (m); among equal fractions the highest value per device first."""
    left, chosen = batch.capacity.copy(), []
    for option in np.lexsort((-batch.density, -np.round(shares, 6))):
        if shares[option] <= _ZERO:
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
