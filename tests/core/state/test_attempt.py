"""Attempts: their names, and the device-seconds that they have had."""

from __future__ import annotations

from dataclasses import replace

from gpuq.core.state.attempt import Attempt, AttemptId, served_s
from gpuq.core.state.device import DeviceId, HostId
from gpuq.core.state.job import JobId, KindId

GANG = Attempt(
    AttemptId(JobId(7), 2),
    KindId("kind"),
    HostId("host"),
    (DeviceId("a"), DeviceId("b")),
    (1, 1),
    True,
    launched_at=10.0,
)


def test_an_attempt_is_named_by_its_job_and_its_number() -> None:
    assert str(GANG.id) == "7-2"


def test_each_device_counts_from_the_start_and_not_from_the_launch() -> None:
    assert served_s(GANG, 100.0) == 0.0
    started = replace(GANG, started_at=40.0)
    assert served_s(started, 100.0) == 120.0
    assert served_s(started, 30.0) == 0.0, "a clock that was set back gives no negative time"
