"""A small world of pairs: kinds with a true sensitivity and pressure that their utilisation only half tells."""

from __future__ import annotations

import math
import random

from gpuq.learn.interference import Interference, Profile

SENSITIVITY = {"cnn": 0.1, "rnn": 0.4, "gan": -0.1}
PRESSURE = {"cnn": 0.3, "rnn": 0.0, "gan": 0.6}


def kinds() -> dict[str, Profile]:
    found = {}
    for place, model in enumerate(SENSITIVITY):
        for batch in range(4):
            name = f"{model}:{2**batch}"
            found[name] = Profile(name, model, utilization_pct=30.0 + 15 * batch + 3 * place, batch_log2=float(batch))
    return found


def slowdown(one: Profile, beside: Profile) -> float:
    together = ((one.utilization_pct or 0) + (beside.utilization_pct or 0)) / 100
    return math.exp(max(0.0, math.log(together) + SENSITIVITY[str(one.model)] + PRESSURE[str(beside.model)]))


def pairs(profiles: dict[str, Profile], noise: float = 0.03, seed: int = 0) -> dict[tuple[str, str], list[float]]:
    chance = random.Random(seed)
    return {
        (a, b): [slowdown(profiles[a], profiles[b]) * chance.lognormvariate(0, noise)]
        for a in profiles
        for b in profiles
    }


def expect(part: Interference, one: Profile, beside: Profile) -> tuple[float, float]:
    """(expected, upper) slowdown of one pair."""
    expected, upper = part.expect_many([one], [beside])
    return float(expected[0]), float(upper[0])
