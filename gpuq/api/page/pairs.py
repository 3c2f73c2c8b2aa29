"""The page of pairs: how much each kind slows each other, as measured while both were alone on a device, and in which runs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median

from aiohttp import web

from gpuq.adapters.store.row_types import Run
from gpuq.api import visibility
from gpuq.api.context import ApiContext, context_of
from gpuq.api.contract import params
from gpuq.api.handlers.shadow import DAY_S
from gpuq.api.identity import caller_of
from gpuq.api.page.frame import page, strength
from gpuq.messages.outcome import PairSlowdown

DAYS = 28
KEPT_S = 60.0
KINDS_SHOWN = 12
RUNS_SHOWN = 50

Measured = list[tuple[Run, PairSlowdown]]
"""Runs of a kind, and what the other kind cost each, latest end first."""


@dataclass(frozen=True)
class Pair:
    """What one kind costs another: the median of the measured slowdowns, their range, and how many there are."""

    median: float
    least: float
    most: float
    count: int
    strength: str


async def pairs(request: web.Request) -> web.Response:
    """The page of pairs."""
    context = context_of(request)
    query = params.query(request, params.PairsQuery)
    owner = None if visibility.sees_all(request) else caller_of(request).user
    live = await context.live.read()
    kept = await context.kept.get(("pairs", owner), partial(_measured, context, owner), for_s=KEPT_S)
    found = kept.value if kept else {}
    counts: Counter[str] = Counter()
    for (slowed, beside), measured in found.items():
        counts.update({slowed: len(measured), beside: len(measured)})
    word = query.kind.casefold()
    kinds = [kind for kind, _ in counts.most_common() if word in kind.casefold()]
    shown = kinds[:KINDS_SHOWN]
    chosen = (query.slowed, query.beside)
    return await page(
        request,
        "pairs",
        live,
        query=query,
        at=kept.at if kept else None,
        days=DAYS,
        kinds=shown,
        kinds_found=len(kinds),
        # A kind that was searched for stands beside all others.
        others=shown if not word else [kind for kind, _ in counts.most_common(KINDS_SHOWN)],
        pairs={key: _pair(measured) for key, measured in found.items()},
        runs=found.get(chosen, [])[:RUNS_SHOWN] if all(chosen) else None,
    )


def _measured(context: ApiContext, owner: str | None) -> dict[tuple[str, str], Measured]:
    """(slowed kind, partner's kind) -> the measurements; with `owner` only between kinds of that user's own runs."""
    runs = [
        run for run in context.runs.since(context.now() - DAYS * DAY_S) if owner in (None, run.owner) and run.actual
    ]
    own = {run.kind for run in runs}
    found: dict[tuple[str, str], Measured] = defaultdict(list)
    for run in sorted(runs, key=lambda run: run.ended_at or 0.0, reverse=True):
        for measured in run.actual.slowdowns if run.actual else ():
            if owner is None or measured.kind in own:
                found[run.kind, measured.kind].append((run, measured))
    return dict(found)


def _pair(measured: Sequence[tuple[Run, PairSlowdown]]) -> Pair:
    values = [one.value for _, one in measured]
    middle = median(values)
    return Pair(middle, min(values), max(values), len(values), strength(middle))
