"""Each public table of pairs in turn as a machine that no one tuned on.

What no fit decides (`interference.fit.Priors`: medians of priors, and by what kinds are compared) is chosen for each table among
`CANDIDATES` by the error on the other tables alone. Then the table is judged twice: one model at a time
held out with all of its pairs, and a fifth of the pairs held out. Everything fitted is fitted to the rest of the table.

The rules were written before the first figure was seen:

- A table counts at the first of `LADDER` at which at least `EACH_SIDE` pairs are slowed less, by the worse of the two, and as
  many are not. The load rule stays at a sum of 100% at every budget, as gpuq's baselines have it.
- A pair of two models is asked about with either held out; coverage and its p-value count each measured slowdown once.
- Differences of AUC are bootstrapped by model: a pair counts as often as both of its models are drawn.
- A baseline's width counts only if its own coverage is consistent with 95%.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean

import numpy as np

from benchmarks.table import Row
from gpuq.lab.evaluate import figures
from gpuq.lab.evaluate.answers import Slowdowns
from gpuq.lab.evaluate.baselines import PAIR_BASELINES
from gpuq.lab.evaluate.clean import CleanTables, clean
from gpuq.lab.evaluate.figures import Flags, Numbers
from gpuq.lab.evaluate.holdout import Holdout, by_model, by_pair
from gpuq.lab.evaluate.judge import Asked, Method, ask_pairs
from gpuq.lab.evaluate.ours import slowdowns
from gpuq.lab.public import alnair, alnair_mps, gavel
from gpuq.learn.interference.fit import PRIORS, Priors
from gpuq.learn.statistics import binomial_tail

LADDER = (1.15, 1.2, 1.3, 1.5, 1.75, 2.0, 2.5)
EACH_SIDE = 30
QUANTILE = 0.95
_DRAWS = 400
_OURS = "gpuq"
# The variants among which a person would have chosen with the tables in view.
CANDIDATES: Mapping[str, Priors] = {
    "all inputs": PRIORS,
    "model and utilisation": PRIORS._replace(inputs=frozenset({"model", "utilization_pct"})),
    "no term of the pair": PRIORS._replace(middle=(*PRIORS.middle[:-1], -4.0)),
    "nearer to the law": PRIORS._replace(middle=(-2.5, -1.2, -2.0, -2.0, 0.0, 2.0, -2.5)),
}


@dataclass(frozen=True)
class _Machine:
    name: str
    table: CleanTables
    budget: float | None
    """None: too few pairs on one side of every budget."""


def run(data: Path) -> list[Row]:
    """All rows."""
    machines = list(_machines(data))
    losses = {machine.name: _losses(machine) for machine in machines if machine.budget is not None}
    return [row for machine in machines for row in _rows(machine, losses)]


def _machines(data: Path) -> Iterator[_Machine]:
    pairs = gavel.pairs(data)
    tables = {
        "MPS (Alnair)": clean(alnair_mps.singles(data), alnair_mps.pairs(data)),
        **{
            f"MPS {gpu.upper()} (Gavel)": clean(
                [single for single in gavel.singles(data) if single.device_type == gpu],
                [pair for pair in pairs if pair.device_type == gpu],
            )
            for gpu in gavel.GPUS
        },
        "the seed's pairs": clean([], alnair.seed_pairs(data / alnair.SEED_PAIRS)),
    }
    for name, table in tables.items():
        yield _Machine(name, table, budget_of(table))


def budget_of(table: CleanTables) -> float | None:
    """The first budget of `LADDER` with enough pairs on each side; None where there is none."""
    worse = [max(p.slowdown_a, p.slowdown_b) for p in table.pairs if p.slowdown_a and p.slowdown_b]
    sides = ((budget, sum(value < budget for value in worse)) for budget in LADDER)
    return next((budget for budget, good in sides if min(good, len(worse) - good) >= EACH_SIDE), None)


def _losses(machine: _Machine) -> dict[str, float]:
    """Candidate -> its mean error in logs on this table, as a share of the constant's, over both ways in which it is judged."""
    held = (by_model(machine.table), by_pair(machine.table))
    shares = [_shares(found) for found in held]
    return {name: fmean(of[name] for of in shares) for name in CANDIDATES}


def _shares(held: Holdout) -> dict[str, float]:
    methods = [Method(name, pairs=partial(slowdowns, priors=priors)) for name, priors in CANDIDATES.items()]
    asked = ask_pairs(held.pairs, [*methods, Method("constant", pairs=PAIR_BASELINES["constant"])])
    there = ~np.isnan(asked.measured)
    errors = {
        name: float(np.abs(np.log(answer.point[there] / asked.measured[there])).mean())
        for name, answer in asked.answers.items()
    }
    return {name: errors[name] / errors["constant"] for name in CANDIDATES}


def chosen(name: str, losses: Mapping[str, Mapping[str, float]]) -> str:
    """The candidate with the least mean loss on the tables other than this one."""
    others = [of for table, of in losses.items() if table != name]
    return min(CANDIDATES, key=lambda candidate: fmean(of[candidate] for of in others))


def _rows(machine: _Machine, losses: Mapping[str, Mapping[str, float]]) -> Iterator[Row]:
    if machine.budget is None:
        yield Row(f"{machine.name}: pairs", len(machine.table.pairs), "", note="too few on one side of every budget")
        return
    candidate = chosen(machine.name, losses)
    own = partial(slowdowns, budget=machine.budget, priors=CANDIDATES[candidate])
    methods = [Method(_OURS, pairs=own), *(Method(name, pairs=fit) for name, fit in PAIR_BASELINES.items())]
    for held in (by_model(machine.table), by_pair(machine.table)):
        asked = ask_pairs(held.pairs, methods)
        name = f"{machine.name} at {machine.budget}, by {held.way}"
        yield from _admission(name, asked, machine.budget, candidate)
        yield from _ranking(name, asked, machine.budget)
        yield from _bounds(name, asked)


def _admission(name: str, asked: Asked, budget: float, candidate: str) -> Iterator[Row]:
    both, good = _worse(asked, budget)
    admitted = {
        of: answer.admits if of in (_OURS, "rule") else answer.point < budget for of, answer in asked.answers.items()
    }
    sides = {of: np.asarray(found.reshape(-1, 2)[both].all(axis=1)) for of, found in admitted.items()}
    rule = figures.recall(sides["rule"], good) if sides["rule"].any() else None
    notes = "; ".join(
        f"{of} {_two(figures.precision(found, good))} / {_two(figures.recall(found, good))}"
        for of, found in sides.items()
        if of not in (_OURS, "constant") and found.any()
    )
    yield Row(f"{name}: precision at a risk of 0.1", figures.precision(sides[_OURS], good), "", 0.9, ">=", notes)
    note = f"{int(good.sum())} of {len(good)} keep it; priors: {candidate}"
    yield Row(f"{name}: recall", figures.recall(sides[_OURS], good), "", rule, ">=", note)


def _ranking(name: str, asked: Asked, budget: float) -> Iterator[Row]:
    """The AUC, and how far it is below the best baseline beyond chance."""
    both, good = _worse(asked, budget)
    scores = {of: -answer.risk.reshape(-1, 2)[both].max(axis=1) for of, answer in asked.answers.items()}
    answered = {of: score for of, score in scores.items() if not np.isnan(score).any() and of != "constant"}
    found = {of: figures.auc(score, good) or math.nan for of, score in answered.items()}
    pairs = [pair for pair, there in zip(asked.pairs, both, strict=True) if there]
    drawn = _bootstrapped(answered, good, [(pair.a.model, pair.b.model) for pair in pairs])
    note = ", ".join(f"{of} {value:.3f}" for of, value in found.items() if of != _OURS)
    yield Row(f"{name}: AUC", found[_OURS], "", note=note)
    above = [float(np.quantile(drawn[_OURS] - drawn[of], QUANTILE)) for of in answered if of != _OURS]
    yield Row(f"{name}: AUC less the best baseline's, 95% of draws", min(above), "", 0.0, ">=")


def _bounds(name: str, asked: Asked) -> Iterator[Row]:
    """Coverage with its exact p-value, and the width beside that of the narrowest baseline whose coverage holds."""
    covered = {of: _coverage(asked, answer) for of, answer in asked.answers.items()}
    valid = {of: width for of, (_, chance, width) in covered.items() if of != _OURS and chance > 1 - QUANTILE}
    share, chance, width = covered[_OURS]
    yield Row(f"{name}: coverage of the 95% bound", 100 * share, "%")
    yield Row(f"{name}: its p-value, exact binomial", chance, "", 1 - QUANTILE, ">=")
    narrowest = min(valid, key=lambda of: valid[of], default=None)
    reach = None if narrowest is None else 1.1 * valid[narrowest]
    yield Row(f"{name}: mean bound / truth", width, "", reach, note=f"narrowest valid baseline: {narrowest}")


def _coverage(asked: Asked, answer: Slowdowns) -> tuple[float, float, float]:
    """(share covered, probability of so few if 95% were, mean bound / truth), each measured slowdown counted once."""
    found: dict[object, list[tuple[float, float]]] = defaultdict(list)
    for place, (truth, upper) in enumerate(zip(asked.measured.tolist(), answer.upper.tolist(), strict=True)):
        if not (math.isnan(truth) or math.isnan(upper)):
            found[asked.pairs[place // 2].key, place % 2].append((float(truth <= upper), upper / truth))
    if not found:
        return math.nan, 0.0, math.nan
    covered = math.fsum(fmean(inside for inside, _ in rows) for rows in found.values())
    failed = round(len(found) - covered)
    width = fmean(fmean(ratio for _, ratio in rows) for rows in found.values())
    return covered / len(found), binomial_tail(failed, len(found), 1 - QUANTILE), width


def _worse(asked: Asked, budget: float) -> tuple[Flags, Flags]:
    """(which pairs have both slowdowns, which of these keep the budget)."""
    table = asked.measured.reshape(-1, 2)
    both = np.asarray(~np.isnan(table).any(axis=1))
    return both, np.asarray(table[both].max(axis=1) < budget)


def _bootstrapped(scores: Mapping[str, Numbers], good: Flags, models: Sequence[tuple[str, str]]) -> dict[str, Numbers]:
    """The AUC of each method in every draw of models, with the same draws for all."""
    names = sorted({model for pair in models for model in pair})
    index = {model: place for place, model in enumerate(names)}
    sides = np.array([[index[model] for model in pair] for pair in models])
    same = sides[:, 0] == sides[:, 1]
    rng = np.random.default_rng(0)
    weights: list[Numbers] = []
    while len(weights) < _DRAWS:
        counts = np.bincount(rng.integers(0, len(names), len(names)), minlength=len(names)).astype(float)
        weight = np.where(same, counts[sides[:, 0]], counts[sides[:, 0]] * counts[sides[:, 1]])
        if weight[good].any() and weight[~good].any():
            weights.append(weight)
    table = np.array(weights)
    above, below = table[:, good], table[:, ~good]
    total = above.sum(axis=1) * below.sum(axis=1)
    found = {}
    for of, score in scores.items():
        gap = score[good][:, None] - score[~good][None, :]
        found[of] = np.einsum("di,ij,dj->d", above, np.sign(gap) / 2 + 0.5, below, optimize=True) / total
    return found


def _two(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
