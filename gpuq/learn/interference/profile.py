"""What is known of a kind before it was measured beside another: the side information of pairs, and distances between kinds.

Every distance is Euclidean, as a covariance needs: an unknown number is placed at the middle of its input and one spread off
to the side; all models are equally far apart; an unknown model differs from every other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from gpuq.learn.history.history import MeasuredRun
from gpuq.learn.history.job_features import JobFeatures
from gpuq.learn.interference.law import Floats
from gpuq.learn.statistics import order_statistic

NUMBERS = ("utilization_pct", "memory_utilization_pct", "batch_log2", "step_log", "memory_log", "power_log")
_LEAST_SPREAD = 1e-6
# As in `history.peak_utilization`: of up to nine runs, the highest.
_PEAK_QUANTILE = 0.9


class Profile(msgspec.Struct, frozen=True):
    """One kind alone. Percent of the device; `step_log`, `memory_log` and `power_log` are natural logs of the seconds of one
    step, of peak memory and of power, each in any unit."""

    kind: str
    model: str | None = None
    utilization_pct: float | None = None
    memory_utilization_pct: float | None = None
    batch_log2: float | None = None
    step_log: float | None = None
    memory_log: float | None = None
    power_log: float | None = None


def observed(
    kind: str, runs: Sequence[MeasuredRun], known: JobFeatures | None = None, utilization_pct: float | None = None
) -> Profile:
    """The profile of a kind from its own runs; without any, from a job's features and its predicted utilisation."""
    latest = runs[-1].known if runs else known or JobFeatures()
    rates = [run.alone_rate for run in runs if run.alone_rate]
    peaks = [run.peak_utilization_pct for run in runs if run.peak_utilization_pct is not None and not run.shared]
    peaks = peaks or [run.peak_utilization_pct for run in runs if run.peak_utilization_pct is not None]
    memory = [run.peak_memory_bytes for run in runs if run.peak_memory_bytes]
    powers = [run.power_w for run in runs if run.power_w]
    # Where the command shows no model, the script's name and its folder's stand for it.
    named = sorted(token for token in latest.tokens if token.startswith("model:"))
    named = named or sorted(token for token in latest.tokens if token.startswith(("script:", "folder:")))
    return Profile(
        kind=kind,
        model=" ".join(named) or None,
        utilization_pct=order_statistic(peaks, _PEAK_QUANTILE) if peaks else utilization_pct,
        batch_log2=latest.batch_log2,
        step_log=-math.log(median(rates)) if rates else None,
        memory_log=math.log(max(memory)) if memory else None,
        power_log=math.log(median(powers)) if powers else None,
    )


def numbers(profiles: Sequence[Profile]) -> Floats:
    """One row per profile, one column per entry of NUMBERS; nan where unknown."""
    rows = [[getattr(profile, name) for name in NUMBERS] for profile in profiles]
    return np.array(rows, dtype=np.float64).reshape(len(profiles), len(NUMBERS))


def utilizations(profiles: Sequence[Profile]) -> Floats:
    """The utilisation of each profile; nan where unknown."""
    return np.array([profile.utilization_pct for profile in profiles], dtype=np.float64)


class SimilarityInput(msgspec.Struct, frozen=True):
    """An input by which kinds are compared. Mean and standard deviation over the measured kinds."""

    name: str
    middle: float = 0.0
    spread: Annotated[float, Meta(gt=0)] = 1.0


def distances(one: Sequence[Profile], other: Sequence[Profile], inputs: Sequence[SimilarityInput]) -> Floats:
    """Squared distance of each of `one` to each of `other` in each input, in spreads: [input, one, other]."""
    left, right = numbers(one), numbers(other)
    found = np.zeros((len(inputs), len(one), len(other)))
    for table, each in zip(found, inputs, strict=True):
        if each.name == "model":
            ours, theirs = (np.array([profile.model for profile in side], dtype=object) for side in (one, other))
            unknown = np.array([model is None for model in ours], dtype=bool)
            table[:] = (ours[:, None] != theirs) | unknown[:, None]
        else:
            ours, theirs = (side[:, NUMBERS.index(each.name)] for side in (left, right))
            a, b = (np.nan_to_num(side - each.middle) / each.spread for side in (ours, theirs))
            table[:] = (a[:, None] - b) ** 2 + (np.isnan(ours)[:, None] != np.isnan(theirs))
    return found


def same_kind(one: Sequence[Profile], other: Sequence[Profile]) -> Floats:
    """1 where both are the same kind, else 0: [one, other]."""
    left, right = (np.array([profile.kind for profile in profiles], dtype=object) for profiles in (one, other))
    return np.asarray(left[:, None] == right[None, :], dtype=np.float64).reshape(len(one), len(other))


def informative_inputs(profiles: Sequence[Profile]) -> tuple[SimilarityInput, ...]:
    """The inputs in which these kinds differ and that are known for at least half of them."""
    table = numbers(profiles)
    found: list[SimilarityInput] = []
    models = [profile.model for profile in profiles if profile.model is not None]
    if len(set(models)) > 1 and 2 * len(models) >= len(profiles):
        found.append(SimilarityInput("model"))
    for column, name in enumerate(NUMBERS):
        known = table[~np.isnan(table[:, column]), column]
        if len(known) >= 2 and 2 * len(known) >= len(profiles) and float(known.std()) > _LEAST_SPREAD:
            found.append(SimilarityInput(name, round(float(known.mean()), 9), round(float(known.std()), 9)))
    return tuple(found)
