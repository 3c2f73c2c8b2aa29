"""A job as public traces tell of it: when, how long, how many devices, of which group; no kind and no owner.

And what is made of it: owners and kinds by a seeded rule, arrivals scaled to a load. All rules are said in notes.
"""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

# A decade wide: durations of one kind then have p90 / p50 of 1.2 to 1.5 in the median; within the user and group of PAI's
# production jobs it is 1.6, in the five groups of the sample that have five instances.
BANDS_PER_DECADE = 1
_JOBS_PER_OWNER = 100
_BURST_S = 300.0


@dataclass(frozen=True, slots=True)
class Asked:
    """One job. Seconds from the trace's start; `group` is its virtual cluster, or what else keeps users apart."""

    submit_s: float
    duration_s: float
    devices: int
    group: str


@dataclass(frozen=True, slots=True)
class Owned:
    """A job with the owner and the kind that were drawn for it."""

    asked: Asked
    owner: str
    kind: str


def scaled(asked: Sequence[Asked], devices: int, load: float) -> tuple[list[Asked], float]:
    """Submissions stretched (or pressed) so that the work asked for is `load` of what the devices can do meanwhile.

    Also the factor that times were multiplied by. One job, or many at one moment, stay as they are.
    """
    first = asked[0].submit_s
    span = asked[-1].submit_s - first
    work = sum(job.duration_s * job.devices for job in asked)
    factor = work / (devices * load) / span if span > 0 else 1.0
    return [replace(job, submit_s=(job.submit_s - first) * factor) for job in asked], factor


def owned(asked: Sequence[Asked], rng: random.Random) -> list[Owned]:
    """Each job with an owner of its group and a kind: owner, band of durations, device count.

    A group has an owner per hundred jobs. What a group submits less than five minutes apart with one device count is one
    owner's.
    """
    owners = {group: math.ceil(count / _JOBS_PER_OWNER) for group, count in Counter(j.group for j in asked).items()}
    last: dict[tuple[str, int], tuple[float, str]] = {}
    found = []
    for job in asked:
        before, owner = last.get((job.group, job.devices), (-math.inf, ""))
        if job.submit_s - before > _BURST_S:
            owner = f"{job.group}-{rng.randrange(owners[job.group]) + 1}"
        last[job.group, job.devices] = (job.submit_s, owner)
        found.append(Owned(job, owner, f"{owner} {band(job.duration_s)} x{job.devices}"))
    return found


def band(duration_s: float) -> str:
    """The band of durations, by its lower end: decades."""
    step = math.floor(math.log10(max(1.0, duration_s)) * BANDS_PER_DECADE + 1e-9)
    return f"{10 ** (step / BANDS_PER_DECADE):.0f}s"


def spread(durations: Sequence[tuple[str, float]]) -> float | None:
    """How far durations of one kind lie apart: p90 / p50, the median over kinds of five jobs or more; None without any."""
    kinds: dict[str, list[float]] = defaultdict(list)
    for kind, duration in durations:
        kinds[kind].append(duration)
    ratios = [
        sorted(found)[math.ceil(0.9 * len(found)) - 1] / median(found) for found in kinds.values() if len(found) >= 5
    ]
    return median(ratios) if ratios else None
