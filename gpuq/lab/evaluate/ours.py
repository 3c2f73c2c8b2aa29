"""gpuq's own learning as one of the methods that are judged: the code that trains and serves, refitted.

Slowdowns come from `learn.interference`, peaks from the `Predictor` with a model that `training.train.fit` makes, decisions to
share from `core.scheduling.admit`. A single stands for a finished attempt of `FAMILY.py --model MODEL --batch-size SIZE`,
described as a submission is.
"""

from __future__ import annotations

import hashlib
import math
import re
import shlex
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import lru_cache, partial

import numpy as np

from gpuq.core.scheduling.admit import DeviceSnapshot, admit
from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.attempt import Attempt, AttemptId
from gpuq.core.state.device import Device, DeviceId, HostId, Reading
from gpuq.core.state.forecast import LEARNED, PARTLY, RULE, Forecast, PairCost
from gpuq.core.state.job import Job, JobId, KindId
from gpuq.lab.evaluate.answers import (
    BUDGET,
    QUANTILE,
    AnswerPairs,
    AnswerSingles,
    Directed,
    Expected,
    FitSingles,
    Slowdowns,
    unknown,
)
from gpuq.lab.evaluate.figures import Numbers
from gpuq.lab.evaluate.judge import Method
from gpuq.lab.evaluate.tables import profile_of
from gpuq.lab.measured import SingleMeasurement
from gpuq.learn.features.kind import describe
from gpuq.learn.history.history import History, Outcome
from gpuq.learn.interference import LAW, Profile
from gpuq.learn.interference.fit import PRIORS, Priors, fit
from gpuq.learn.interference.profile import utilizations
from gpuq.learn.serving.predictor import Predictor
from gpuq.learn.training import train
from gpuq.messages.submission import Submission
from gpuq.settings import Learning

# The evidence of a pair by how many of the two were measured beside others, as in `interference.pair`.
EVIDENCE = (RULE, PARTLY, LEARNED)
_MIB = 2**20
_OWNER = "evaluate"
_ODD = re.compile(r"[^\w./@+-]+")
_LONGEST = 80


def slowdowns(known: Sequence[Directed], budget: float = BUDGET, priors: Priors = PRIORS) -> AnswerPairs:
    """Slowdowns by `learn.interference`, fitted to the known ones, and what is admitted at this budget."""
    limits = Limits(max_slowdown=budget)
    measured: dict[tuple[str, str], list[float]] = defaultdict(list)
    # Of more pairs than can be used the last ones count, and rows come sorted by name: a digest deals them evenly over the names.
    for row in sorted(known, key=_dealt):
        measured[row.job.job, row.beside.job].append(row.slowdown)
    profiles = {single.job: profile_of(single) for row in known for single in (row.job, row.beside)}
    learned = fit(profiles, measured, QUANTILE, priors) or LAW

    def answer(questions: Sequence[tuple[SingleMeasurement, SingleMeasurement]]) -> Slowdowns:
        if not questions:
            return Slowdowns.of(unknown(0), unknown(0))
        ones, besides = ([profile_of(question[side]) for question in questions] for side in (0, 1))
        point, upper = learned.expect_many(ones, besides)
        there, there_upper = learned.expect_many(besides, ones)
        numbers = np.column_stack([point, upper, there, there_upper]).tolist()
        risks = zip(learned.risks(ones, besides, point), learned.risks(besides, ones, there), strict=True)
        costs = [
            PairCost(
                KindId(beside.kind),
                a,
                a_upper,
                b,
                b_upper,
                evidence=EVIDENCE[learned.known(one, beside)],
                risks=of_pair,
            )
            for one, beside, (a, a_upper, b, b_upper), of_pair in zip(ones, besides, numbers, risks, strict=True)
        ]
        admits = np.array([_admits(*row, limits) for row in zip(ones, besides, costs, strict=True)])
        # As in `interference.pair`: where nothing was learned, the law needs both utilisations.
        silent = (
            np.isnan(utilizations(ones) + utilizations(besides)) if learned is LAW else np.zeros(len(point), dtype=bool)
        )
        point, upper = np.where(silent, np.nan, point), np.where(silent, np.nan, upper)
        return Slowdowns(point, upper, point, admits & ~silent)

    return answer


def _dealt(row: Directed) -> str:
    """What orders pairs as if at random, always alike, and both directions of a pair next to each other."""
    return hashlib.sha256("\n".join(sorted((row.job.job, row.beside.job))).encode()).hexdigest()


def _admits(newcomer: Profile, resident: Profile, cost: PairCost, limits: Limits) -> bool:
    """Whether `admit` lets the two share a device with enough memory. Jobs of unknown utilisation never pass by the load rule."""
    mine, theirs = (
        Forecast(math.inf if found.utilization_pct is None else found.utilization_pct, 1, 1, pairs=pairs)
        for found, pairs in ((newcomer, (cost,)), (resident, ()))
    )
    device, host = DeviceId("device"), HostId("host")
    there = Attempt(AttemptId(JobId(1), 1), KindId(resident.kind), host, (device,), (1,), True, 0.0, theirs)
    place = DeviceSnapshot(Device(device, host, "", "", 2**30), (there,), Reading(0.0, 1, 0.0, 0, 0.0))
    job = Job(JobId(2), KindId(newcomer.kind), newcomer.kind, _OWNER, 0.0)
    return admit(job, mine, place, limits).admitted


def peaks(of: Callable[[Forecast], tuple[float | None, float | None]], unit: float) -> FitSingles:
    """One target of the served forecast of a kind without runs. `of` takes (expected, bound) from a forecast; both are divided
    by `unit` to get the table's unit.
    """

    def fit_target(known: Sequence[SingleMeasurement], measured: Numbers) -> AnswerSingles:
        del measured  # the singles have it
        predictor = _predictor(tuple(known))

        def answer(questions: Sequence[SingleMeasurement]) -> Expected:
            found = [of(_forecast(predictor, single)) for single in questions]
            pairs = np.array(found, dtype=np.float64).reshape(len(questions), 2)
            return Expected(pairs[:, 0] / unit, pairs[:, 1] / unit)

        return answer

    return fit_target


@lru_cache(maxsize=64)
def _predictor(known: tuple[SingleMeasurement, ...]) -> Predictor:
    """A predictor trained on these singles, without history: the questions are about kinds without runs."""
    learning = Learning(quantile=QUANTILE)
    # With one model in all, holding it out leaves nothing to train with.
    model = train.fit([_outcome(single) for single in known], learning) if known else None
    return Predictor(History(), model, learning)


def _forecast(predictor: Predictor, single: SingleMeasurement) -> Forecast:
    kind, _, features = describe(_submission(single), _OWNER)
    return predictor.forecast_for(kind, features, single.device_type)


def _outcome(single: SingleMeasurement) -> Outcome:
    kind, signature, features = describe(_submission(single), _OWNER)
    memory = single.peak_memory_mib
    return Outcome(
        kind=kind,
        signature=signature,
        script_sha256=None,
        device_type=single.device_type,
        features=features,
        peak_utilization_pct=single.utilization_pct,
        peak_memory_bytes=None if memory is None else round(memory * _MIB),
        duration_s=None,
        alone_rate=single.steps_per_s,
        shared_rate=None,
        slowdowns=(),
        ending="exited",
        shared=False,
        ended_at=0.0,
    )


def _submission(single: SingleMeasurement) -> Submission:
    if single.command is not None:
        words = shlex.split(single.command)
        program = next((word for word in words if word.endswith(".py")), None)
        return Submission(command=tuple(words), cwd="/", script=program, kind=single.job)
    size = [] if single.batch_size is None else ["--batch-size", f"{single.batch_size:g}"]
    # Characters that a command line could not contain are replaced.
    model = _ODD.sub("_", single.model).strip("-_.") or "model"
    script = f"{_ODD.sub('_', single.family or 'train')}.py"
    return Submission(
        command=("python", script, "--model", model[:_LONGEST], *size), cwd="/", script=script, kind=single.job
    )


def ours(budget: float = BUDGET) -> Method:
    """gpuq, which admits at this slowdown budget."""
    return Method(
        "gpuq",
        pairs=partial(slowdowns, budget=budget),
        utilization=peaks(lambda one: (one.expected_utilization_pct, one.peak_utilization_pct), 1.0),
        memory=peaks(lambda one: (one.peak_memory_bytes, one.upper_memory_bytes), float(_MIB)),
    )
