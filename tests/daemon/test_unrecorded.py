"""What a host reports and the record does not have is to be stopped."""

from __future__ import annotations

from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.device import HostId
from gpuq.core.state.events import ResidentReport
from gpuq.core.state.job import JobId
from gpuq.core.state.state import State
from gpuq.daemon.unrecorded import UnrecordedAttempts
from tests.support.nouns import a_device, a_report

HOST, ATTEMPT = HostId("host"), AttemptId(JobId(7), 1)


def test_an_attempt_that_is_reported_for_longer_than_its_end_takes_is_stopped_and_noted_once() -> None:
    noted: list[str] = []
    unrecorded = UnrecordedAttempts(lambda sentence, host: noted.append(sentence))
    report = a_report(a_device(), residents=(ResidentReport(attempt=ATTEMPT, started_at=1.0),))

    unrecorded.heard(report, State(), 100.0)
    assert list(unrecorded.to_stop(104.0)) == [], "its end may be on the way"
    unrecorded.heard(report, State(), 105.0)
    assert [list(unrecorded.to_stop(at)) for at in (105.0, 106.0)] == [[(HOST, ATTEMPT)]] * 2
    assert noted == ["attempt 7-1 runs on host host and not in the record: it is stopped"]

    unrecorded.heard(a_report(a_device()), State(), 107.0)
    assert list(unrecorded.to_stop(200.0)) == [], "its host does not report it any more"
    unrecorded.heard(report, State(), 300.0)
    unrecorded.forget(HOST)
    assert list(unrecorded.to_stop(400.0)) == []
