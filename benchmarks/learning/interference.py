"""Slowdowns of pairs: how well they are foretold, how often the bound holds, and what admission makes of them.

On `alnair_mps_pairs` (18 jobs, 216 directed slowdowns) one job is held out entirely: its rows and its columns, since both
cells of a pair are the same experiment. What is foretold are all directed pairs with that job; each pair of two different
jobs therefore counts twice, once per job held out. Again with one network held out. Error is mean |expected / measured - 1|.

On `gavel_pairs` only pairs that ran together count, each type of GPU by itself: with a fifth of the unordered pairs known
(drawn by seed), and with all pairs of other jobs and 3 of one job's known. What is foretold are both directions of the other
pairs. The baseline is log s = m + r_a + c_b by ridge, its penalty chosen by cross-validation inside the known part.

Admission is `gpuq.core.scheduling.admit` itself, on a device with memory to spare; the truth is that the worse of the two
is slowed by less than 1.15. Everything fitted (parameters, factors of bounds) is fitted to the known part only. What no fit
chose was chosen by a person who saw these tables: the form of the covariance and its traits, that expected slowdowns are what
admission compares, and that models are left out in turn for the bounds even where there are but two. `LAW`'s factor was set on
the MPS pairs; no held-out figure here uses it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

import numpy as np

from benchmarks.table import Row
from gpuq.core.scheduling.admit import DeviceSnapshot, admit
from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.attempt import Attempt, AttemptId
from gpuq.core.state.device import Device, DeviceId, HostId, Reading
from gpuq.core.state.forecast import Forecast
from gpuq.core.state.job import Job, JobId, KindId
from gpuq.lab.evaluate.tables import DirectedSlowdowns, directed, profiles
from gpuq.lab.measured import PairMeasurement
from gpuq.lab.public import alnair_mps, gavel
from gpuq.learn.history.history import History
from gpuq.learn.interference import LAW, Interference, PairCosts, Profile
from gpuq.learn.interference.fit import fit, fit_shaped, tune
from gpuq.learn.interference.law import slowdown

BUDGET = 1.15
QUANTILE = 0.95
SEEDS = range(5)
KNOWN_SHARE = 0.2
KNOWN_OF_ONE = 3
PENALTIES = (0.03, 0.1, 0.3, 1.0, 3.0)
QUESTIONS = 10_000
GAVEL_REACH = {"k80": (5.0, 4.5), "p100": (9.0, 9.0)}

Profiles = Mapping[str, Profile]


def run(data: Path) -> list[Row]:
    """All rows."""
    return [*_mps(data), *_gavel(data), *_speed(data)]


# --- MPS pairs -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Said:
    """One held-out directed pair: what was said of it, and what came."""

    pair: tuple[str, str]
    fold: str
    measured: float
    expected: float
    upper: float
    constant: float
    law: float
    load: float


def _mps(data: Path) -> Iterator[Row]:
    known = profiles(alnair_mps.singles(data), alnair_mps.DEVICE)
    slowdowns = directed(alnair_mps.pairs(data))[alnair_mps.DEVICE, alnair_mps.SHARING]
    without_steps = {kind: _stripped(profile) for kind, profile in known.items()}
    by_job = {job: {job} for job in known}
    by_model = {str(p.model): {q.kind for q in known.values() if q.model == p.model} for p in known.values()}
    said, admitted = _held_out(known, slowdowns, by_job)
    yield from _accuracy("MPS pairs, one job held out", said, reach=True)
    yield from _admission("MPS pairs, one job held out", said, slowdowns, admitted, reach=True)
    less, _ = _held_out(without_steps, slowdowns, by_job)
    yield Row("MPS pairs, one job held out: error, utilisation alone", _error(less), "%", 15, note="no step time known")
    said, admitted = _held_out(known, slowdowns, by_model)
    yield from _accuracy("MPS pairs, one network held out", said, reach=False)
    yield from _admission("MPS pairs, one network held out", said, slowdowns, admitted, reach=False)
    said, admitted = _held_out_pairs(known, slowdowns)
    yield from _accuracy("MPS pairs, a tenth of the pairs held out", said, reach=False)
    yield from _admission("MPS pairs, a tenth of the pairs held out", said, slowdowns, admitted, reach=True)


def _stripped(profile: Profile) -> Profile:
    return Profile(profile.kind, profile.model, profile.utilization_pct)


def _accuracy(name: str, said: Sequence[Said], *, reach: bool) -> Iterator[Row]:
    slow = [one.measured > BUDGET for one in said]
    constant = 100 * fmean(abs(one.constant / one.measured - 1) for one in said)
    law = 100 * fmean(abs(one.law / one.measured - 1) for one in said)
    yield Row(f"{name}: error", _error(said), "%", 15 if reach else None)
    yield Row(f"{name}: error, a constant", constant, "%", note="the median of what is known")
    yield Row(f"{name}: error, the law alone", law, "%", note="max(1, u_a + u_b), rounded")
    ratio = _error(said) / law
    yield Row(f"{name}: error of unseen kinds / the law's", ratio, "", 1.0, note="never worse off than under the rule")
    yield Row(
        f"{name}: AUC at {BUDGET}", area([one.expected for one in said], slow), "", 0.93 if reach else None, sense=">="
    )
    yield Row(f"{name}: AUC, sum of utilisations", area([one.load for one in said], slow), "")
    cover = 100 * fmean(one.measured <= one.upper for one in said)
    yield Row(f"{name}: coverage of the 95% bound", cover, "%", 94 if reach else None, sense=">=")
    over = fmean(one.upper / one.measured for one in said)
    yield Row(f"{name}: mean bound / truth", over, "", 1.35 if reach else None)


def _admission(
    name: str,
    said: Sequence[Said],
    slowdowns: DirectedSlowdowns,
    admitted: set[tuple[str, tuple[str, str]]],
    *,
    reach: bool,
) -> Iterator[Row]:
    """Over (fold, pair) where both directions were measured."""
    places = {(one.fold, _sorted(one.pair)) for one in said if one.pair[::-1] in slowdowns}
    good = {place for place in places if max(slowdowns[place[1]][0], slowdowns[place[1][::-1]][0]) < BUDGET}
    loads = {(one.fold, _sorted(one.pair)): one.load for one in said}
    rule = {place for place in places if loads[place] <= 100}
    for who, yes in (("admission", admitted & places), ("admission, the load rule", rule)):
        hits = len(yes & good)
        goal = reach and who == "admission"
        yield Row(f"{name}: {who}, precision", hits / max(1, len(yes)), "", 0.97 if goal else None, sense=">=")
        yield Row(f"{name}: {who}, recall", hits / max(1, len(good)), "", 0.85 if goal else None, sense=">=")


def _held_out(
    known: Profiles, slowdowns: DirectedSlowdowns, groups: Mapping[str, set[str]]
) -> tuple[list[Said], set[tuple[str, tuple[str, str]]]]:
    parts = {name: {pair for pair in slowdowns if out.intersection(pair)} for name, out in groups.items()}
    return _foretold(known, slowdowns, parts)


def _held_out_pairs(
    known: Profiles, slowdowns: DirectedSlowdowns
) -> tuple[list[Said], set[tuple[str, tuple[str, str]]]]:
    pairs = sorted({_sorted(pair) for pair in slowdowns})
    drawn = np.random.default_rng(0).permutation(len(pairs)).tolist()
    folds = {str(fold): {pairs[i] for i in drawn[fold::10]} for fold in range(10)}
    parts = {name: {pair for pair in slowdowns if _sorted(pair) in out} for name, out in folds.items()}
    return _foretold(known, slowdowns, parts)


def _foretold(
    known: Profiles, slowdowns: DirectedSlowdowns, parts: Mapping[str, set[tuple[str, str]]]
) -> tuple[list[Said], set[tuple[str, tuple[str, str]]]]:
    """What is said of each part from the rest, and the (fold, pair) that admission says yes to."""
    said: list[Said] = []
    admitted = set()
    for fold, out in parts.items():
        rest = {pair: values for pair, values in slowdowns.items() if pair not in out}
        learned = _fitted(known, rest)
        constant = median(value for values in rest.values() for value in values)
        held_out = sorted(out)
        expected, upper = learned.expect_many([known[a] for a, _ in held_out], [known[b] for _, b in held_out])
        for pair, point, bound in zip(held_out, expected.tolist(), upper.tolist(), strict=True):
            one, beside = (known[kind].utilization_pct or 0.0 for kind in pair)
            law = slowdown(one, beside) or 1.0
            said.append(Said(pair, fold, slowdowns[pair][0], point, bound, constant, law, one + beside))
        admitted |= {(fold, _sorted(pair)) for pair in held_out if _admits(known, learned, pair)}
    return said, admitted


def _fitted(known: Profiles, slowdowns: DirectedSlowdowns) -> Interference:
    return fit(known, slowdowns, QUANTILE) or LAW


def _admits(known: Profiles, learned: Interference, pair: tuple[str, str]) -> bool:
    """What `gpuq.core.scheduling.admit` says to the first of the pair beside the second."""
    newcomer, resident = (known[kind] for kind in pair)
    costs = PairCosts(History(), QUANTILE)
    costs.use({"gpu": learned})
    cost = costs.cost(newcomer, resident, "gpu", "gpu")
    mine, theirs = (Forecast(profile.utilization_pct, 1, 1, pairs_known=True) for profile in (newcomer, resident))
    device, host = DeviceId("gpu0"), HostId("host")
    there = Attempt(AttemptId(JobId(1), 1), KindId(resident.kind), host, (device,), (1,), True, 0.0, theirs)
    place = DeviceSnapshot(Device(device, host, "sim", "gpu", 2**30), (there,), Reading(0.0, 1, 0.0, 0, 0.0))
    job = Job(id=JobId(2), owner="bench", kind=KindId(newcomer.kind), signature=newcomer.kind, submitted_at=0.0)
    forecast = Forecast(mine.peak_utilization_pct, 1, 1, cost.newcomer, cost.newcomer_upper, pairs=(cost,))
    return admit(job, forecast, place, Limits(max_slowdown=BUDGET)).admitted


# --- Gavel pairs ---------------------------------------------------------------------------------------------------


def _gavel(data: Path) -> Iterator[Row]:
    singles, pairs = gavel.singles(data), gavel.pairs(data)
    for gpu in gavel.GPUS:
        known = profiles(singles, gpu)
        names_only = {kind: Profile(kind) for kind in known}
        mine = [pair for pair in pairs if pair.device_type == gpu]
        fifth, three = list(_a_fifth(mine)), list(_three_of_one(mine))
        for name, parts, reach in (
            (f"Gavel {gpu}, {KNOWN_SHARE:.0%} of the pairs known", fifth, GAVEL_REACH[gpu][0]),
            (f"Gavel {gpu}, one job with {KNOWN_OF_ONE} pairs known", three, GAVEL_REACH[gpu][1]),
        ):
            yield Row(f"{name}: error", _split_error(parts, _learned(known)), "%", reach, note="model and batch known")
            yield Row(f"{name}: error, pairs alone", _split_error(parts, _learned(names_only)), "%")
            yield Row(f"{name}: error, ridge in logs", _split_error(parts, _ridge), "%")
        yield from _gavel_bounds(gpu, known, fifth)


def _gavel_bounds(
    gpu: str, known: Profiles, parts: Sequence[tuple[list[PairMeasurement], list[PairMeasurement]]]
) -> Iterator[Row]:
    held, over = [], []
    for rest, out in parts:
        learned = _fitted(known, _one_place(rest))
        table = _one_place(out)
        _, upper = learned.expect_many([known[a] for a, _ in table], [known[b] for _, b in table])
        for bound, values in zip(upper.tolist(), table.values(), strict=True):
            held += [value <= bound for value in values]
            over += [bound / value for value in values]
    name = f"Gavel {gpu}, {KNOWN_SHARE:.0%} of the pairs known"
    yield Row(f"{name}: coverage of the 95% bound", 100 * fmean(held), "%", 94, sense=">=")
    yield Row(f"{name}: mean bound / truth", fmean(over), "", 1.35)


Forecaster = Callable[[DirectedSlowdowns, Sequence[tuple[str, str]]], Sequence[float]]


def _learned(known: Profiles) -> Forecaster:
    def forecast(rest: DirectedSlowdowns, asked: Sequence[tuple[str, str]]) -> Sequence[float]:
        learned = fit_shaped(known, rest, tune(known, rest))
        expected, _ = learned.expect_many([known[a] for a, _ in asked], [known[b] for _, b in asked])
        return [float(value) for value in expected]

    return forecast


def _ridge(rest: DirectedSlowdowns, asked: Sequence[tuple[str, str]]) -> Sequence[float]:
    """log s = m + r_a + c_b; the penalty with the least squared error in five folds of the known pairs."""
    pairs = sorted({_sorted(pair) for pair in rest})
    drawn = np.random.default_rng(0).permutation(len(pairs)).tolist()

    def loss(penalty: float) -> float:
        squares = []
        for start in range(5):
            out = {pairs[i] for i in drawn[start::5]}
            table = {pair: values for pair, values in rest.items() if _sorted(pair) not in out}
            test = [pair for pair in rest if _sorted(pair) in out]
            squares += [
                (math.log(said) - math.log(value)) ** 2
                for said, pair in zip(_additive(table, test, penalty), test, strict=True)
                for value in rest[pair]
            ]
        return fmean(squares)

    return _additive(rest, asked, min(PENALTIES, key=loss))


def _additive(rest: DirectedSlowdowns, asked: Sequence[tuple[str, str]], penalty: float) -> Sequence[float]:
    kinds = sorted({kind for pair in (*rest, *asked) for kind in pair})
    index = {kind: i for i, kind in enumerate(kinds)}
    cells = [(pair, math.log(value)) for pair, values in rest.items() for value in values]
    middle = fmean(value for _, value in cells)

    def design(pairs: Iterable[tuple[str, str]]) -> np.ndarray:
        pairs = list(pairs)
        table = np.zeros((len(pairs), 2 * len(kinds)))
        for row, (a, b) in enumerate(pairs):
            table[row, index[a]] = table[row, len(kinds) + index[b]] = 1.0
        return table

    table = design(pair for pair, _ in cells)
    target = np.array([value - middle for _, value in cells])
    terms = np.linalg.solve(table.T @ table + penalty * np.eye(table.shape[1]), table.T @ target)
    return [float(value) for value in np.exp(middle + design(asked) @ terms)]


def _a_fifth(pairs: Sequence[PairMeasurement]) -> Iterator[tuple[list[PairMeasurement], list[PairMeasurement]]]:
    """(known, held out), once per seed."""
    for seed in SEEDS:
        drawn = np.random.default_rng(seed).permutation(len(pairs)).tolist()
        count = round(KNOWN_SHARE * len(pairs))
        yield [pairs[i] for i in drawn[:count]], [pairs[i] for i in drawn[count:]]


def _three_of_one(pairs: Sequence[PairMeasurement]) -> Iterator[tuple[list[PairMeasurement], list[PairMeasurement]]]:
    """(known, held out), once per job that has more pairs than these three."""
    for seed, job in enumerate(sorted({job for pair in pairs for job in (pair.job_a, pair.job_b)})):
        its = [pair for pair in pairs if job in (pair.job_a, pair.job_b)]
        others = [pair for pair in pairs if job not in (pair.job_a, pair.job_b)]
        drawn = np.random.default_rng(seed).permutation(len(its)).tolist()
        if len(its) > KNOWN_OF_ONE:
            yield (
                [*others, *(its[i] for i in drawn[:KNOWN_OF_ONE])],
                [its[i] for i in drawn[KNOWN_OF_ONE:]],
            )


def _split_error(parts: Sequence[tuple[list[PairMeasurement], list[PairMeasurement]]], forecast: Forecaster) -> float:
    errors = []
    for rest, out in parts:
        table = _one_place(out)
        for said, values in zip(forecast(_one_place(rest), list(table)), table.values(), strict=True):
            errors += [abs(said / value - 1) for value in values]
    return 100 * fmean(errors)


# --- speed ---------------------------------------------------------------------------------------------------------


def _speed(data: Path) -> Iterator[Row]:
    known = profiles(gavel.singles(data), "p100")
    table = _one_place([pair for pair in gavel.pairs(data) if pair.device_type == "p100"])
    learned = fit_shaped(known, table, tune(known, table))
    chance = np.random.default_rng(0)
    kinds = list(known.values())
    new = [Profile(f"new {i}", kinds[i % len(kinds)].model, None, None, float(i % 9)) for i in range(500)]
    pool = [*kinds, *new]
    ones, besides = ([pool[i] for i in chance.integers(0, len(pool), QUESTIONS)] for _ in range(2))
    learned.expect_many(ones[:1], besides[:1])
    began = time.perf_counter()
    learned.expect_many(ones, besides)
    yield Row(f"{QUESTIONS:,} pair questions, vectorised", time.perf_counter() - began, "s", 1.0)
    costs = PairCosts(History(), QUANTILE)
    costs.use({"p100": learned})
    spans = []
    for one, beside in zip(ones[:300], besides[:300], strict=True):
        began = time.perf_counter()
        costs.cost(one, beside, "p100", "p100")
        spans.append(1000 * (time.perf_counter() - began))
    yield Row("one pair question, median", median(spans), "ms", 1.0)


# --- common --------------------------------------------------------------------------------------------------------


def area(scores: Sequence[float], positive: Sequence[bool]) -> float:
    """Area under the ROC curve: how often a positive scores above a negative, ties counting half."""
    yes = np.array([score for score, is_positive in zip(scores, positive, strict=True) if is_positive])
    no = np.array([score for score, is_positive in zip(scores, positive, strict=True) if not is_positive])
    return float(np.mean((yes[:, None] > no) + 0.5 * (yes[:, None] == no)))


def _error(said: Sequence[Said]) -> float:
    return 100 * fmean(abs(one.expected / one.measured - 1) for one in said)


def _one_place(pairs: Sequence[PairMeasurement]) -> DirectedSlowdowns:
    (table,) = directed(pairs).values()
    return table


def _sorted(pair: tuple[str, str]) -> tuple[str, str]:
    a, b = sorted(pair)
    return a, b
