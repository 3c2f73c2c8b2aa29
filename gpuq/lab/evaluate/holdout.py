"""What is held out: by model, by pair, or by time, so that no test row shares its model, pair or time with a training row.

What a job needs alone is known when its pairs are asked about, since gpuq runs a job alone before it lets it share.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from gpuq.errors import BadInput
from gpuq.lab.evaluate.clean import CleanTables, JoinedPair, combined, work
from gpuq.lab.measured import SingleMeasurement

WAYS = ("model", "pair", "time")
SEED = 0
PAIR_FOLDS = 5
# With more models (or jobs) several are held out at once, so that a large table does not take an hour.
MOST_FOLDS = 24

_DRAWS = 3
_FEW_JOBS = 12
_PairKey = tuple[str, str | None, str, str]

Row = TypeVar("Row")
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Split(Generic[Row]):
    """Pairs or singles to learn from, and those to predict."""

    known: tuple[Row, ...]
    asked: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Holdout:
    """All splits of one of `WAYS`, and a description."""

    way: str
    how: str
    pairs: tuple[Split[JoinedPair], ...]
    singles: tuple[Split[SingleMeasurement], ...]


def hold_out(table: CleanTables, way: str, seed: int = SEED) -> Holdout:
    """The splits of one of `WAYS`. Raises BadInput where times are wanted and there are none."""
    return {"model": by_model, "pair": by_pair, "time": by_time}[way](table, seed)


def by_model(table: CleanTables, seed: int = SEED) -> Holdout:
    """Each model in turn: every single and every pair that involves it."""
    models = sorted(
        {single.model for single in table.singles} | {model for pair in table.pairs for model in pair.models}
    )
    folds = _folds(models, MOST_FOLDS, seed)
    how = f"every single and pair of a model, for each of {len(models)} models"
    if len(folds) < len(models):
        how += f", in {len(folds)} groups of models"
    return Holdout(
        "model",
        f"{how}; a pair of two models is asked with either held out",
        tuple(_split(table.pairs, [not fold.isdisjoint(pair.models) for pair in table.pairs]) for fold in folds),
        tuple(_split(table.singles, [single.model in fold for single in table.singles]) for fold in folds),
    )


def by_pair(table: CleanTables, seed: int = SEED) -> Holdout:
    """A fifth of the pairs in turn, both directions and all repeats together; of singles one job in turn."""
    pairs = _folds(sorted({pair.key for pair in table.pairs}, key=str), PAIR_FOLDS, seed)
    works = _folds(sorted({work(single) for single in table.singles}, key=str), 2 * MOST_FOLDS, seed)
    return Holdout(
        "pair",
        f"a random fifth of the pairs in turn (seed {seed}), all directions and repeats together; of singles "
        f"{'one' if all(len(fold) == 1 for fold in works) else f'one of {len(works)} groups'} in turn",
        tuple(_split(table.pairs, [pair.key in fold for pair in table.pairs]) for fold in pairs),
        tuple(_split(table.singles, [work(single) in fold for single in table.singles]) for fold in works),
    )


def by_time(table: CleanTables, seed: int = SEED) -> Holdout:
    """The later half from the earlier half. Raises BadInput where times are not there, or all the same."""
    del seed  # nothing is drawn
    pairs_cut = _middle_time([pair.measured_at for pair in table.pairs], "pairs")
    singles_cut = _middle_time([single.measured_at for single in table.singles], "singles")
    pairs = tuple(pair for pair in table.pairs if pair.measured_at is not None)
    singles = tuple(single for single in table.singles if single.measured_at is not None)
    return Holdout(
        "time",
        "the later half by measured_at, predicted from the earlier half",
        () if pairs_cut is None else (_with_profiles_of_then(pairs, table.singles, pairs_cut),),
        () if singles_cut is None else (_split(singles, [_at(single) >= singles_cut for single in singles]),),
    )


def few_pairs(table: CleanTables, seed: int = SEED) -> Holdout:
    """A fifth of the pairs known, the rest asked; several draws."""
    keys = sorted({pair.key for pair in table.pairs}, key=str)
    folds = (
        [fold for draw in range(_DRAWS) for fold in _folds(keys, PAIR_FOLDS, seed + draw)[:1]] if len(keys) > 1 else []
    )
    splits = tuple(_split(table.pairs, [pair.key not in fold for pair in table.pairs]) for fold in folds)
    return Holdout("pair", f"with 20% of the pairs known ({_DRAWS} draws)", splits, ())


def few_of_a_job(table: CleanTables, seed: int = SEED, count: int = 3) -> Holdout:
    """One job held out but for `count` of its pairs: each job with more pairs than that, or a sample of such jobs."""
    draw = random.Random(seed)  # noqa: S311  a reproducible draw, no secret
    own: dict[tuple[str, str | None, str], set[_PairKey]] = defaultdict(set)
    for pair in table.pairs:
        for job in (pair.a.job, pair.b.job):
            own[*pair.group, job].add(pair.key)
    jobs = sorted((job for job, keys in own.items() if len(keys) > count), key=str)
    splits = []
    for chosen in sorted(draw.sample(jobs, min(_FEW_JOBS, len(jobs))), key=str):
        held = own[chosen] - set(draw.sample(sorted(own[chosen], key=str), count))
        splits.append(_split(table.pairs, [pair.key in held for pair in table.pairs]))
    how = f"one job held out with {count} of its pairs known ({len(splits)} jobs)"
    return Holdout("pair", how, tuple(splits), ())


def _with_profiles_of_then(
    pairs: Sequence[JoinedPair], singles: Sequence[SingleMeasurement], cut: float
) -> Split[JoinedPair]:
    """The pairs before and from `cut` on, each job with what was measured of it alone by then: by the cut for a pair to learn
    from, by its own time for one that is asked about. There a job without any is known by its first run alone, which gpuq would
    have made before."""
    runs: dict[tuple[str, str], list[SingleMeasurement]] = defaultdict(list)
    for single in sorted(singles, key=_at):
        runs[single.device_type, single.job].append(single)

    def profile(job: SingleMeasurement, moment: float) -> SingleMeasurement:
        all_runs = runs[job.device_type, job.job]
        by_then = [run for run in all_runs if (_at(run) <= moment if moment >= cut else _at(run) < cut)]
        found = by_then or (all_runs[:1] if moment >= cut else [])
        unknown = SingleMeasurement(job.device_type, job.job, job.model)
        return combined(found, lambda run: run.job)[0] if found else unknown

    dated = [replace(pair, a=profile(pair.a, _at(pair)), b=profile(pair.b, _at(pair))) for pair in pairs]
    return _split(dated, [_at(pair) >= cut for pair in pairs])


def _at(row: JoinedPair | SingleMeasurement) -> float:
    return -math.inf if row.measured_at is None else row.measured_at


def _middle_time(times: Sequence[float | None], rows: str) -> float | None:
    """The time at which the later half begins; rows of one time stay together. None where there are no rows."""
    if not times:
        return None
    known = sorted(time for time in times if time is not None)
    fix = "Give each row its time, in Unix seconds or as 2026-11-21T14:30:00Z, or use --holdout model or pair."
    if not known:
        raise BadInput(f"--holdout time needs the column measured_at, and the {rows} have none.", fix=fix)
    if known[0] == known[-1]:
        raise BadInput(f"--holdout time needs different times, and all {rows} have one measured_at.", fix=fix)
    middle = known[len(known) // 2]
    return middle if middle > known[0] else next(time for time in known if time > middle)


def _folds(keys: Sequence[Key], most: int, seed: int) -> list[frozenset[Key]]:
    """The keys dealt at random to at most `most` folds; one key each where they are few."""
    dealt = list(keys)
    random.Random(seed).shuffle(dealt)  # noqa: S311  a reproducible draw, no secret
    count = min(most, len(dealt))
    return [frozenset(dealt[start::count]) for start in range(count)]


def _split(rows: Sequence[Row], held: Sequence[bool]) -> Split[Row]:
    marked = list(zip(rows, held, strict=True))
    return Split(tuple(row for row, out in marked if not out), tuple(row for row, out in marked if out))
