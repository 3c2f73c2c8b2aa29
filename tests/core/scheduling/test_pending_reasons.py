"""Why a job waits is said when it is new, not again and again."""

from __future__ import annotations

from gpuq.core.state.actions import SetPendingReason
from gpuq.core.state.events import Submitted
from gpuq.core.state.verdict import Rule
from tests.support.nouns import a_device, a_forecast, a_job, a_report, a_start, an_exit
from tests.support.playbook import Playbook


def test_a_reason_is_said_once_not_every_second() -> None:
    play = Playbook().happen(a_report(a_device()), Submitted(a_job(1)), Submitted(a_job(2))).settle()
    said = len([a for a in play.done if isinstance(a, SetPendingReason)])

    play.happen(a_report(a_device())).settle()

    assert len([a for a in play.done if isinstance(a, SetPendingReason)]) == said


def test_a_reason_stays_as_long_as_its_device_would_say_the_same() -> None:
    play = Playbook().forecast("kind", a_forecast(80, 4)).forecast("light", a_forecast(70, 4))
    devices = (a_device("gpu0"), a_device("gpu1"))
    play.happen(a_report(*devices), Submitted(a_job(1)), Submitted(a_job(2))).settle()
    play.happen(Submitted(a_job(3))).settle()
    first = play.verdict(3)

    play.happen(a_start(2), an_exit(2), Submitted(a_job(4, priority=1, kind="light"))).settle()

    assert first is not None
    assert (first.rule, first.device) == (Rule.PREDICTED_LOAD, "gpu0")
    assert play.launched()[4] == "gpu1", "it is the least loaded now, and would be named first"
    assert play.verdict(3) == first
