"""What a host reports and the record does not have is stopped, while the host is there."""

from __future__ import annotations

from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.device import HostId
from gpuq.core.state.events import ResidentReport
from gpuq.core.state.job import JobId
from gpuq.core.state.state import State
from gpuq.daemon.unrecorded import UnrecordedAttempts
from tests.support.nouns import a_device, a_report

ATTEMPT = AttemptId(JobId(7), 1)


def test_a_host_that_is_away_gets_no_stops() -> None:
    said: list[tuple[str, HostId]] = []
    unrecorded = UnrecordedAttempts(lambda sentence, host: said.append((sentence, host)))
    report = a_report(a_device(), residents=(ResidentReport(attempt=ATTEMPT, started_at=1.0),))

    def stops(at: float) -> list[AttemptId]:
        return [order.attempt_id for order in unrecorded.orders(int(at), 1, at)]

    unrecorded.heard(report, State(), 100.0)
    assert stops(104.0) == [], "its end may be on the way"
    unrecorded.heard(report, State(), 105.0)
    assert stops(105.0) == [ATTEMPT]
    assert [at for at in range(106, 4000) if stops(float(at))] == [107, 109, 111, 113, 115], "it is away from then on"

    unrecorded.heard(report, State(), 4000.0)
    assert stops(4000.0) == [ATTEMPT]
    assert len(said) == 1, "it is noted once"
