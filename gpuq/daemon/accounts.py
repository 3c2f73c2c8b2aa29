"""The slowdown accounts of jobs that share a device from their start on, and so have no rate alone of their own.

The rate alone of their kind on the same type of device takes its place, where one was measured.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gpuq.core.measuring.account import slowed_s
from gpuq.core.measuring.slowdown import Rate
from gpuq.core.state.events import HostReported, ResidentReport
from gpuq.core.state.job import KindId
from gpuq.core.state.state import State

RateAlone = Callable[[KindId, str], Rate | None]


def with_rates_of_kinds(report: HostReported, state: State, alone: RateAlone, now: float) -> HostReported:
    """The report with `slowed_s` where it follows from the rate alone of the kind, and not from the job's own."""
    if all(one.slowed_s is not None or one.rates is None for one in report.residents):
        return report
    return replace(report, residents=tuple(_completed(one, state, alone, now) for one in report.residents))


def _completed(one: ResidentReport, state: State, alone: RateAlone, now: float) -> ResidentReport:
    attempt = state.attempts.get(one.attempt)
    if attempt is None or one.slowed_s is not None or one.rates is None or one.rates.alone_rate is not None:
        return one
    rate = alone(attempt.kind, state.devices[attempt.devices[0]].type)
    if rate is None or attempt.started_at is None:
        return one
    beside_s = max(0.0, now - attempt.started_at - (one.paused_s or 0.0))
    return replace(one, slowed_s=slowed_s(beside_s, replace(one.rates, alone=rate)))
