"""Plans each pass by a neural network trained by reinforcement learning.

The network chooses job by job how each is started (`game.py`). `gpuq.lab.sim.train_policy`
trains it. Here its best action is taken every time, so the same batch gives the same plan.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from gpuq.core.scheduling.policy import Policy
from gpuq.lab.planners.game import Game
from gpuq.lab.planners.network import SHIPPED, PolicyNetwork, load
from gpuq.policies.planners.batch import Batch
from gpuq.policies.planners.plan import Plan, better, greedy, planner
from gpuq.policies.spec import PolicySpec
from gpuq.settings import Scheduling


def solve_reinforcement(batch: Batch, network: PolicyNetwork) -> Plan:
    """The better of the network's plan and the greedy one: a network may fail on batches unlike those of its training."""
    return better(played(batch, network), greedy(batch))


def played(batch: Batch, network: PolicyNetwork) -> Plan:
    """The network's own plan."""
    game = Game(batch)
    while not game.over:
        game.act(network.choose(game.observe(), game.allowed()))
    return Plan(batch, game.plan)


def _make(scheduling: Scheduling) -> Policy:
    named = scheduling.reinforcement_file
    network = load(Path(named).expanduser() if named else SHIPPED)
    return planner(partial(solve_reinforcement, network=network), scheduling)


# Not work conserving: where a gang could start beside residents but is worth less than it costs them, devices may stay idle.
SPEC = PolicySpec("plans each pass by a trained network", _make, starvation_free=False)
