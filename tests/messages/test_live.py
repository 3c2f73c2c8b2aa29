"""What a worker measures of a resident reaches the API, whatever fields there are."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, get_type_hints

import msgspec
import pytest

from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.actions import Launch
from gpuq.core.state.apply import apply
from gpuq.core.state.attempt import Attempt, AttemptId
from gpuq.core.state.events import ResidentNumbers, ResidentReport, Submitted
from gpuq.core.state.job import JobId
from gpuq.core.state.state import State
from gpuq.core.state.verdict import Rule, Verdict
from gpuq.daemon.view import View
from gpuq.messages.live import DispatcherStatus, LiveNumbers, decode
from tests.support.nouns import a_device, a_job, a_report

ATTEMPT = AttemptId(JobId(1), 1)


def any_numbers() -> dict[str, Any]:
    """A value for each of the numbers, by its type."""
    hints = get_type_hints(ResidentNumbers)
    values = {int | None: 7, float | None: 0.5, str | None: "words", bool: True}
    return {field.name: values[hints[field.name]] for field in fields(ResidentNumbers)}


def test_every_number_of_a_report_is_in_the_live_numbers_of_the_api() -> None:
    device = a_device()
    report = a_report(device, residents=(ResidentReport(attempt=ATTEMPT, started_at=2.0, **any_numbers()),))
    state = State()
    job = a_job(1)
    attempt = Attempt(
        id=ATTEMPT,
        kind=job.kind,
        host=device.host,
        devices=(device.id,),
        promised=(1,),
        shares=False,
        launched_at=1.0,
    )
    view = View(Limits(), lambda _kind, _type: None)
    for item in (report, Submitted(job), Launch(attempt, Verdict(True, Rule.IDLE)), report):
        apply(state, item, 1.0)
    view.note(report, report.at)

    resident = decode(view.draw(state, 1.0, DispatcherStatus())).resident(1)

    assert resident is not None
    assert isinstance(resident.numbers, LiveNumbers)
    shown = msgspec.to_builtins(resident.numbers)
    assert {name: shown[name] for name in any_numbers()} == any_numbers()
    assert "job" not in shown


@pytest.mark.parametrize("ahead_s", [3600.0, -90.0])
def test_how_far_the_clock_of_a_host_is_ahead_is_shown(ahead_s: float) -> None:
    report, state, view = a_report(a_device()), State(), View(Limits(), lambda _kind, _type: None)
    apply(state, report, 1.0)
    view.note(report, report.at - ahead_s)
    assert [host.clock_ahead_s for host in decode(view.draw(state, 1.0, DispatcherStatus())).hosts] == [ahead_s]
