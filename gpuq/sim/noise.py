"""The random difference between repeated runs of the same work, drawn from the run's name alone.

Because the draw depends on nothing else, a job needs the same whatever policy is simulated, and policies are compared on the
same draws.
"""

from __future__ import annotations

import math
import random

from gpuq.learn.statistics import REPEATED_RUN, Prior


def repeated(name: str, prior: Prior = REPEATED_RUN) -> float:
    """A factor around 1: Student's t on the log, with the scale and degrees of freedom of `prior` (see `learn.statistics`).

    The same `name` always gives the same factor; it should name the job or attempt and the measured quantity.
    """
    chance = random.Random(name)  # noqa: S311 - a simulation's random numbers, no secret
    student = chance.gauss(0, 1) / math.sqrt(chance.gammavariate(prior.weight / 2, 2.0) / prior.weight)
    return math.exp(prior.scale * student)
