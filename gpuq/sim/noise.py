"""How much a run differs from the same run done before, by chance that depends on nothing but its name.

So a job needs the same whatever policy is simulated, and policies are compared on the same luck.
"""

from __future__ import annotations

import math
import random

from gpuq.learn.statistics import REPEATED_RUN, Prior


def repeated(name: str, prior: Prior = REPEATED_RUN) -> float:
    """A factor around 1: Student's t on the log, with the spread and freedom that repeated runs show (see `learn.statistics`).

    `name` says whose and of what; the same name gives the same factor.
    """
    chance = random.Random(name)  # noqa: S311 - chance, no secret
    student = chance.gauss(0, 1) / math.sqrt(chance.gammavariate(prior.weight / 2, 2.0) / prior.weight)
    return math.exp(prior.scale * student)
