"""Mixed-integer programming: the optimal plan of the batch, by HiGHS, within a share of a policy's time limit.

It starts from the rounded relaxation and searches only among options that a better plan may contain. At the time limit it uses
the best plan found, so that its plans, unlike those of the other planners, may depend on the speed of the machine.
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

# The other half is for building the batch, for the relaxation, and for overruns: HiGHS checks the clock only now and then.
_SHARE_OF_TIME = 0.5


def solve_integer(batch: Batch, time_limit_s: float) -> Plan:
    """The best plan found within the limit. Its `bound` equals its value if it was proven optimal."""
    start = greedy(batch)
    relaxed = relax(batch, start.chosen)
    if relaxed is None:
        return start
    known = better(rounded(batch, relaxed.shares), start)
    chosen, bound = _search(batch, np.flatnonzero(relaxed.worth_a_look(known.value)), time_limit_s)
    if chosen is not None:
        # The solver's tolerance may leave devices idle that a job of little value could use.
        known = better(known, Plan(batch, complete(batch, chosen)))
    # No plan with an excluded option is better than the known one, so the search's bound holds for all plans above that.
    return Plan(batch, known.chosen, bound=min(relaxed.bound, max(bound, known.value)))


def _search(batch: Batch, options: Indices, time_limit_s: float) -> tuple[Indices | None, float]:
    """(best plan of these options, upper bound of such plans); (None, infinity) if the time is too short to find any."""
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
