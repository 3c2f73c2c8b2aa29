"""Reinforcement learning: a trained network chooses, job by job, how each is started (`reinforced/`).

It was trained elsewhere (`gpuq.lab.sim.train_policy`); here it is only played, greedily, so the same batch gives the same plan.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from gpuq.core.scheduling.policy import Policy
from gpuq.policies.planners.batch import Batch
from gpuq.policies.planners.plan import Plan, better, greedy, planner
from gpuq.policies.planners.reinforced.game import Game
from gpuq.policies.planners.reinforced.network import SHIPPED, PolicyNetwork, load
from gpuq.policies.spec import PolicySpec
from gpuq.settings import Scheduling


def solve_reinforcement(batch: Batch, network: PolicyNetwork) -> Plan:
    """The network's plan, or the greedy one where that is worth more: a network may err on what it never saw."""
    return better(played(batch, network), greedy(batch))


def played(batch: Batch, network: PolicyNetwork) -> Plan:
    """The network's plan, whatever it is worth."""
    game = Game(batch)
    while not game.over:
        game.act(network.choose(game.observe(), game.allowed()))
    return Plan(batch, game.plan)


def _make(scheduling: Scheduling) -> Policy:
    named = scheduling.reinforcement_file
    network = load(Path(named).expanduser() if named else SHIPPED)
    return planner(partial(solve_reinforcement, network=network), scheduling)


# Not work conserving: a gang that could start beside residents, where that is worth less than it costs them, may be left waiting
# beside idle devices.
SPEC = PolicySpec("plans each pass by a trained network", _make, starvation_free=False)
