"""Mixed-integer programming: the best plan of the batch, by HiGHS, within a share of the time that a policy has.

At the limit the best plan found so far is used, or the greedy one where that is worth more: then a plan depends on how fast
the machine is, as those of the other planners do not.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from gpuq.core.policy import Policy
from gpuq.policies.batch import Batch
from gpuq.policies.linear import matrix
from gpuq.policies.plan import Plan, better, complete, greedy, planner, require_scipy
from gpuq.policies.recipe import Recipe
from gpuq.settings import Scheduling

# The rest is for drawing up the batch, and for what HiGHS does between two looks at the clock.
_SHARE_OF_TIME = 0.5


def solve_integer(batch: Batch, time_limit_s: float) -> Plan:
    """The best plan found within the limit, and HiGHS' bound of what any can be worth."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    solution = milp(
        -batch.value,
        constraints=LinearConstraint(matrix(batch), ub=batch.room),
        integrality=np.ones(batch.size),
        bounds=Bounds(0, 1),
        options={"time_limit": time_limit_s, "mip_rel_gap": 0.0},
    )
    plans = [greedy(batch)]
    if solution.x is not None:
        # Within the solver's tolerance devices may stay idle that a job of little worth could have.
        chosen = np.flatnonzero(solution.x > 0.5)
        plans.insert(0, Plan(batch, complete(batch, chosen)))
    bound = getattr(solution, "mip_dual_bound", None)
    return Plan(batch, better(*plans).chosen, bound=None if bound is None else -float(bound))


def _make(scheduling: Scheduling) -> Policy:
    require_scipy("integer")
    solve = partial(solve_integer, time_limit_s=_SHARE_OF_TIME * scheduling.policy_time_limit_s)
    return planner(solve, scheduling.plan_jobs)


RECIPE = Recipe(
    "plans each pass as an integer program, solved as far as time allows", _make,
    work_conserving=True, starvation_free=False, extra="train",
)  # fmt: skip
