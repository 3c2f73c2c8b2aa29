"""Why a job waits is said when it is new, not again and again."""

from __future__ import annotations

from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.actions import SetPendingReason
from gpuq.core.state.events import CancelRequested, Submitted
from gpuq.core.state.job import JobId
from gpuq.core.state.verdict import Rule
from tests.support.nouns import GIB, a_device, a_forecast, a_job, a_report, a_start, an_exit
from tests.support.playbook import Playbook


def test_a_reason_is_said_once_not_every_second() -> None:
    play = Playbook().happen(a_report(a_device()), Submitted(a_job(1)), Submitted(a_job(2))).settle()
    said = len([a for a in play.done if isinstance(a, SetPendingReason)])

    play.happen(a_report(a_device())).settle()

    assert len([a for a in play.done if isinstance(a, SetPendingReason)]) == said


def test_devices_that_were_just_given_to_jobs_count_as_busy() -> None:
    play = Playbook().happen(a_report(a_device("gpu0"), a_device("gpu1")))
    play.happen(Submitted(a_job(1)), Submitted(a_job(2)), Submitted(a_job(3, device_count=2))).settle()
    verdict = play.verdict(3)
    assert verdict is not None
    assert (verdict.rule, dict(verdict.numbers)["busy_devices"]) == (Rule.RESOURCES, 2)


def test_a_job_that_only_a_silent_device_has_the_memory_for_waits_for_that_one() -> None:
    large, small = a_device("large", gib=80, host="away"), a_device("small", gib=16)
    play = Playbook().happen(a_report(large, host="away")).happen(a_report(small), after=60)
    play.happen(Submitted(a_job(1, declared_memory=60 * GIB))).settle()
    play.happen(
        Submitted(a_job(2, declared_memory=GIB)), Submitted(a_job(3, kind="large", declared_memory=60 * GIB))
    ).settle()
    assert list(play.launched()) == [2]
    assert {play.reason(1), play.reason(3)} == {Rule.STALE_READING}, "no device is taken that they could have"


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


def kept_for_another() -> Playbook:
    """gpu0 is reserved for job 2, which is overdue; jobs 1 and 3 run."""
    play = Playbook(Limits(patience_s=600, stale_after_s=1e9)).forecast("big", a_forecast(98, 1))
    gpus = (a_device("gpu0"), a_device("gpu1"))
    play.happen(a_report(*gpus), Submitted(a_job(1, kind="big")), Submitted(a_job(3, kind="big"))).settle()
    play.happen(a_start(1), a_start(3))
    play.happen(Submitted(a_job(2, kind="big", device_count=2, submitted_at=play.now))).settle()
    return play.happen(after=700).settle()


def test_a_job_beside_a_device_kept_for_another_waits_for_that_job() -> None:
    play = kept_for_another()
    assert play.state.reservations[JobId(2)].devices == ("gpu0", "gpu1")
    freed = play.launched()[1]

    play.happen(Submitted(a_job(4, kind="new"))).settle()
    play.happen(an_exit(1)).settle()

    verdict = play.verdict(4)
    assert verdict is not None
    assert (verdict.rule, verdict.device, dict(verdict.numbers)) == (Rule.RESERVED, freed, {"reserved_for": 2})


def test_a_reason_names_the_job_that_a_device_is_kept_for_now() -> None:
    play = kept_for_another()
    play.happen(Submitted(a_job(4, kind="new"))).settle().happen(an_exit(1)).settle()
    play.happen(Submitted(a_job(5, kind="big", device_count=2, max_slowdown=1.5, submitted_at=0.0)))

    play.happen(CancelRequested(JobId(2), "ada")).settle()

    verdict = play.verdict(4)
    assert verdict is not None
    assert (verdict.rule, dict(verdict.numbers)) == (Rule.RESERVED, {"reserved_for": 5})
