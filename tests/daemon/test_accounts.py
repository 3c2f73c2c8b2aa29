"""What a job loses that shared its device from its start on follows from the rate alone of its kind."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuq.core.measuring.slowdown import Rate, Rates
from gpuq.core.state.events import ResidentReport
from gpuq.core.state.job import KindId
from gpuq.daemon.accounts import with_rates_of_kinds
from tests.support.nouns import a_device, a_report, a_resident
from tests.support.playbook import one_running

ALONE, SHARED = Rate.of([10.0]), Rate.of([8.0])


def slowed(resident: ResidentReport, known: Rate | None = ALONE) -> float | None:
    """By the report, 100 s after the start."""
    play = one_running()
    report = a_report(a_device(), residents=(resident,))
    asked: list[tuple[KindId, str]] = []

    def alone(kind: KindId, device_type: str) -> Rate | None:
        asked.append((kind, device_type))
        return known

    found = with_rates_of_kinds(report, play.state, alone, play.now + 100).residents[0].slowed_s
    attempt = next(iter(play.state.attempts.values()))
    assert set(asked) <= {(attempt.kind, a_device().type)}
    return found


def beside(**numbers: object) -> ResidentReport:
    return replace(a_resident(1), rates=Rates(None, SHARED), paused_s=0.0, **numbers)  # type: ignore[arg-type]


def test_a_job_without_time_alone_is_compared_with_its_kind() -> None:
    assert slowed(beside()) == pytest.approx(20.0)


@pytest.mark.parametrize(
    ("resident", "known", "expected"),
    [
        (beside(slowed_s=5.0), ALONE, 5.0),
        (beside(), None, None),
        (replace(beside(), rates=Rates(None, None)), ALONE, None),
        (replace(beside(), rates=Rates(ALONE, None)), ALONE, None),
        (replace(beside(), rates=None), ALONE, None),
        (replace(beside(), attempt=a_resident(7).attempt), ALONE, None),
    ],
    ids=["measured itself", "kind unknown", "too short together", "alone known", "no partner", "not running"],
)
def test_nothing_else_is_changed(resident: ResidentReport, known: Rate | None, expected: float | None) -> None:
    assert slowed(resident, known) == expected


def test_time_in_a_pause_was_not_beside_the_partner() -> None:
    assert slowed(replace(beside(), paused_s=50.0)) == pytest.approx(10.0)
