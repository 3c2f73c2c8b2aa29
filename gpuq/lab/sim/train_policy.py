"""`python -m gpuq.lab.sim.train_policy FILE` trains the network of the policy `reinforcement`, by PPO and by DQN.

It trains on made-up worlds only (`gpuq.lab.sim.queued.made_up`, the seeds `TRAINED_ON`), and the worlds `HELD_OUT` decide which
network is kept. The network is written to FILE, and both results are printed. Needs Stable-Baselines3: `pip install
'gpuq-daemon[reinforcement]'`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean
from typing import Any

from gpuq.errors import BadInput, GpuqError
from gpuq.lab.planners.network import PolicyNetwork, save
from gpuq.lab.planners.reinforcement import played
from gpuq.lab.sim.queued import made_up
from gpuq.policies.planners.batch import Batch
from gpuq.policies.planners.plan import greedy

METHODS = ("ppo", "dqn")
TRAINED_ON = range(1000, 1200)
HELD_OUT = range(11, 61)
STEPS = 40_000
_WIDTHS = (64, 64)
# A step's reward assumes that the plan is completed greedily, so it comes at once and the far future matters little.
_DISCOUNT = 0.9
# Rewards are parts of a plan's worth, a few thousandths; networks learn better from numbers around one.
_SCALE = 100.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, and return the process's exit code."""
    parser = argparse.ArgumentParser(prog="python -m gpuq.lab.sim.train_policy", description=__doc__)
    parser.add_argument("file", type=Path, help="where the network goes")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"of each method (default: {STEPS})")
    parser.add_argument("--seed", type=int, default=0, help="of the training (default: 0)")
    asked = parser.parse_args(arguments)
    try:
        network, results = best_of(METHODS, asked.steps, asked.seed)
    except GpuqError as error:
        print(f"{error.message} {error.fix}", file=sys.stderr)  # noqa: T201 - it is a command
        return error.exit_code
    save(network, asked.file)
    print(f"{results}\nkept {network.method}: {asked.file}")  # noqa: T201
    return 0


def best_of(methods: Sequence[str], steps: int, seed: int) -> tuple[PolicyNetwork, str]:
    """(the network that did best on the worlds held out, all results in words). Raises BadInput without the library."""
    try:
        import stable_baselines3  # noqa: F401
    except ImportError as error:
        raise BadInput(
            f"training needs Stable-Baselines3: {error}.", fix="Install it: `pip install 'gpuq-daemon[reinforcement]'`."
        ) from None
    batches = [made_up(held_out) for held_out in HELD_OUT]
    with ProcessPoolExecutor(len(methods), get_context("spawn")) as pool:
        networks = pool.map(partial(train, steps=steps, seed=seed), methods)
        found = {network.method: (network, against_greedy(network, batches)) for network in networks}
    sentence = "; ".join(f"{method}: {worth:.4f} of greedy's worth" for method, (_, worth) in found.items())
    network, _ = max(found.values(), key=lambda one: one[1])
    results = {method: worth for method, (_, worth) in found.items()}
    about = f"mean of plan / greedy plan over made-up worlds {HELD_OUT[0]} to {HELD_OUT[-1]}"
    kept = {**network.trained, "held_out": {"what": about, **results}}
    return PolicyNetwork(network.method, network.hidden, network.layers, kept), sentence


def against_greedy(network: PolicyNetwork, batches: Sequence[Batch]) -> float:
    """The mean of plan / greedy plan by worth."""
    return fmean(played(batch, network).value / greedy(batch).value for batch in batches)


def train(method: str, steps: int, seed: int) -> PolicyNetwork:
    """The network that `ppo` or `dqn` learns in so many steps; on one machine the same seed gives the same network."""
    model = _model(method, seed)
    import torch

    torch.set_num_threads(1)
    model.learn(total_timesteps=steps)
    return exported(method, model, {"steps": steps, "seed": seed})


def exported(method: str, model: Any, about: dict[str, Any]) -> PolicyNetwork:
    """The deciding part of a Stable-Baselines3 model as arrays: the Q network of DQN, the policy network of PPO."""
    import torch

    policy = model.policy
    parts = policy.q_net.q_net if method == "dqn" else [*policy.mlp_extractor.policy_net, policy.action_net]
    linear = [part for part in parts if isinstance(part, torch.nn.Linear)]
    layers = tuple((p.weight.detach().numpy().T.copy(), p.bias.detach().numpy().copy()) for p in linear)
    trained = {
        **about,
        "worlds": f"made up (gpuq.lab.sim.queued.made_up), seeds {TRAINED_ON[0]} to {TRAINED_ON[-1]}",
        "versions": {name: version(name) for name in ("gymnasium", "stable-baselines3", "torch", "numpy")},
    }
    return PolicyNetwork(method, "relu", layers, trained)


def _model(method: str, seed: int) -> Any:
    from gymnasium.wrappers import TransformReward
    from stable_baselines3 import DQN, PPO
    from torch.nn import ReLU

    from gpuq.lab.sim.environment import PlanningEnvironment

    world = TransformReward(PlanningEnvironment(made_up, TRAINED_ON), lambda reward: _SCALE * float(reward))
    how: dict[str, Any] = {
        "policy_kwargs": {"net_arch": list(_WIDTHS), "activation_fn": ReLU},
        "gamma": _DISCOUNT,
        "seed": seed,
        "device": "cpu",
    }
    if method == "ppo":
        return PPO("MlpPolicy", world, learning_rate=1e-3, n_steps=1024, batch_size=256, ent_coef=0.01, **how)
    return DQN(
        "MlpPolicy", world, learning_rate=5e-4, buffer_size=100_000, learning_starts=2_000, batch_size=128, train_freq=4,
        target_update_interval=1_000, exploration_fraction=0.3, exploration_final_eps=0.05, **how,
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
