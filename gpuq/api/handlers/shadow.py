"""`GET /api/v1/report/shadow`: what sharing would have saved and cost in the last days."""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp import web

from gpuq.adapters.store.contract import Chance, Store
from gpuq.api.context import context_of, reply
from gpuq.api.contract import params
from gpuq.api.contract.schema_predict import ShadowPair, ShadowReport
from gpuq.api.missed_savings import DEFINITION, MissedSavings, missed_savings
from gpuq.core.state.job import ENDED
from gpuq.format import rfc3339

DAY_S = 86_400.0


async def shadow(request: web.Request) -> web.Response:
    """The report over the last `days`."""
    context = context_of(request)
    days = params.query(request, params.DaysQuery).days
    since = context.now() - days * DAY_S
    chances, found, never_ran, ended, shared = await context.read(_read, context.store, since)
    on = context.parts.settings.scheduling.shadow
    counts = {"chances": len(chances), "never_ran": never_ran, "attempts_ended": ended, "attempts_shared": shared}
    return reply(_report(found, on=on, days=days, since=since, counts=counts))


def _read(store: Store, since: float) -> tuple[list[Chance], MissedSavings, int, int, int]:
    """(opportunities, their sums, how many of their jobs ended without running, attempts that ended, those that had a
    partner)."""
    chances = store.chances(since=since)
    finished = store.finished_attempts(since=since)
    ran = {row.id for row, _ in finished}
    rows = store.jobs(ids=[chance.job for chance in chances if chance.job not in ran], states=list(ENDED))
    gone = {row.id for row in rows}
    shared = sum(bool(attempt.actual and attempt.actual.partners) for _, attempt in finished)
    found = missed_savings([chance for chance in chances if chance.job not in gone], finished)
    return chances, found, len(gone), len(finished), shared


def _report(found: MissedSavings, *, on: bool, days: int, since: float, counts: Mapping[str, int]) -> ShadowReport:
    return ShadowReport(
        on=on,
        days=days,
        since=rfc3339(since),
        definition=DEFINITION,
        **counts,
        counted=found.counted,
        open=found.open,
        slowdown_unknown=found.unknown,
        gpu_hours_run=found.ran_h,
        gpu_hours_saved=found.saved_h,
        wait_avoided_mean_s=found.wait_mean_s,
        wait_avoided_hours=found.wait_sum_h,
        slowdown_mean=found.slowdown_mean,
        slowdown_worst=found.slowdown_worst,
        slowdown_upper_worst=found.upper_worst,
        delay_hours=found.delay_sum_h,
        pairs=[
            ShadowPair(
                newcomer=pair.newcomer,
                beside=pair.resident,
                times=pair.times,
                gpu_hours_saved=pair.saved_h,
                newcomer_slowdown=pair.newcomer_slowdown,
                beside_slowdown=pair.resident_slowdown,
                wait_avoided_mean_s=pair.wait_mean_s,
                evidence=pair.evidence,
            )
            for pair in found.pairs
        ],
    )
