"""Mixed-integer programming: the best plan of the batch, by HiGHS, within a share of the time that a policy has.

Starts from the rounded linear program and looks only at options that a better plan may hold. At the limit the best plan found
so far is used: then the plan depends on how fast the machine is, as those of the other planners do not.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from gpuq.core.scheduling.policy import Policy
from gpuq.policies.planners.batch import Batch, Indices
from gpuq.policies.planners.linear import rounded
from gpuq.policies.planners.plan import Plan, better, complete, greedy, planner, require_scipy
from gpuq.policies.planners.relaxed import relax, uses
from gpuq.policies.spec import PolicySpec
from gpuq.settings import Scheduling

# The rest is for drawing up the batch, for the linear program, and for what HiGHS does between two looks at the clock.
_SHARE_OF_TIME = 0.5


def solve_integer(batch: Batch, time_limit_s: float) -> Plan:
    """The best plan found within the limit; `bound` equals its value where it is proven to be the best."""
    start = greedy(batch)
    relaxed = relax(batch, start.chosen)
    if relaxed is None:
        return start
    known = better(rounded(batch, relaxed.shares), start)
    chosen, bound = _search(batch, np.flatnonzero(relaxed.worth_a_look(known.value)), time_limit_s)
    if chosen is not None:
        # Within the solver's tolerance devices may stay idle that a job of little worth could have.
        known = better(known, Plan(batch, complete(batch, chosen)))
    # Options left out can only be part of plans that are worth no more than the one known.
    return Plan(batch, known.chosen, bound=min(relaxed.bound, max(bound, known.value)))


def _search(batch: Batch, options: Indices, time_limit_s: float) -> tuple[Indices | None, float]:
    """(the best plan of these options alone, a bound of all such): None, and infinity, where the time was too short."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    if not len(options):
        return None, 0.0
    solution = milp(
        -batch.value[options],
        constraints=LinearConstraint(uses(batch)[:, options], ub=batch.capacity),
        integrality=np.ones(len(options)),
        bounds=Bounds(0, 1),
        options={"time_limit": time_limit_s, "mip_rel_gap": 0.0},
    )
    bound = float("inf") if solution.mip_dual_bound is None else -float(solution.mip_dual_bound)
    return (None if solution.x is None else options[solution.x > 0.5]), bound


def _make(scheduling: Scheduling) -> Policy:
    require_scipy("integer")
    solve = partial(solve_integer, time_limit_s=_SHARE_OF_TIME * scheduling.policy_time_limit_s)
    return planner(solve, scheduling)


SPEC = PolicySpec(
    "plans each pass as an integer program, solved as far as time allows", _make,
    work_conserving=True, starvation_free=False, extra="train",
)  # fmt: skip
