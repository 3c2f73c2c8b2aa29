"""One pass after another: who runs where, who waits, and why. Each test is a small story."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.actions import Launch, Revoke
from gpuq.core.state.attempt import AttemptId, Ending
from gpuq.core.state.device import HostId, NoStarts
from gpuq.core.state.events import HostDrained, HostResumed, Submitted, Woke
from gpuq.core.state.forecast import PairCost
from gpuq.core.state.job import JobId, KindId, Sharing
from gpuq.core.state.verdict import Rule
from tests.support.nouns import GIB, a_device, a_forecast, a_job, a_reading, a_report, a_resident, a_start, an_exit
from tests.support.playbook import Playbook


def test_the_first_run_of_a_kind_has_its_device_to_itself_and_the_second_job_waits_for_its_end() -> None:
    play = Playbook().happen(a_report(a_device()), Submitted(a_job(1)), Submitted(a_job(2))).settle()

    assert play.launched() == {1: "gpu0"}
    assert play.reason(2) is Rule.FIRST_RUN_EXCLUSIVE

    play.happen(a_start(1), an_exit(1)).settle()
    assert play.launched() == {1: "gpu0", 2: "gpu0"}


def test_two_known_jobs_share_when_the_sum_fits() -> None:
    play = Playbook().forecast("kind", a_forecast(45, 4))
    play.happen(a_report(a_device()), Submitted(a_job(1)), Submitted(a_job(2)), Submitted(a_job(3))).settle()

    assert play.launched() == {1: "gpu0", 2: "gpu0"}
    assert play.reason(3) is Rule.RESOURCES, "two on one device at most"


def test_two_that_would_load_the_device_beyond_its_limit_do_not_share() -> None:
    play = Playbook().forecast("kind", a_forecast(58, 4))
    play.happen(a_report(a_device()), Submitted(a_job(1)), Submitted(a_job(2))).settle()

    assert play.launched() == {1: "gpu0"}
    verdict = play.verdict(2)
    assert verdict is not None
    assert (verdict.rule, verdict.device) == (Rule.PREDICTED_LOAD, "gpu0")
    assert dict(verdict.numbers)["sum_pct"] == 116


def test_an_idle_device_is_preferred_to_sharing() -> None:
    play = Playbook().forecast("kind", a_forecast(20, 1))
    play.happen(a_report(a_device("gpu0"), a_device("gpu1")), Submitted(a_job(1)), Submitted(a_job(2))).settle()

    assert play.launched() == {1: "gpu0", 2: "gpu1"}


def test_the_least_loaded_partner_is_preferred() -> None:
    play = Playbook().forecast("heavy", a_forecast(60, 1)).forecast("light", a_forecast(20, 1))
    play.happen(a_report(a_device("gpu0"), a_device("gpu1")))
    play.happen(Submitted(a_job(1, kind="heavy")), Submitted(a_job(2, kind="light"))).settle()

    play.happen(Submitted(a_job(3, kind="light"))).settle()

    assert play.launched()[3] == play.launched()[2]


def test_a_job_that_does_not_fit_now_does_not_hold_up_one_that_does() -> None:
    play = Playbook().forecast("light", a_forecast(20, 1)).forecast("heavy", a_forecast(98, 1))
    play.happen(a_report(a_device()), Submitted(a_job(1, kind="light"))).settle()
    play.happen(Submitted(a_job(2, kind="heavy")), Submitted(a_job(3, kind="light"))).settle()

    assert play.launched() == {1: "gpu0", 3: "gpu0"}
    assert play.reason(2) is Rule.RESOURCES


def test_small_jobs_cannot_starve_a_large_one_for_ever() -> None:
    play = Playbook(Limits(patience_s=600)).forecast("light", a_forecast(20, 1)).forecast("heavy", a_forecast(90, 1))
    play.happen(a_report(a_device()), Submitted(a_job(1, kind="light"))).settle()
    play.happen(Submitted(a_job(2, kind="heavy", submitted_at=play.now))).settle()
    play.happen(a_report(a_device()), after=700)
    play.happen(Submitted(a_job(3, kind="light", submitted_at=play.now))).settle()
    assert 3 not in play.launched(), "the device is kept for the one that waits longest"

    play.happen(a_start(1), an_exit(1)).settle()
    assert play.launched()[2] == "gpu0"


def test_priority_goes_first_then_the_longest_waiting() -> None:
    play = Playbook().happen(Submitted(a_job(1)), Submitted(a_job(2, priority=5)), Submitted(a_job(3)))
    play.happen(a_report(a_device())).settle()

    assert play.launched() == {2: "gpu0"}


@pytest.mark.parametrize("first", ["newcomer", "resident"])
def test_a_measured_slowdown_beyond_the_budget_keeps_two_kinds_apart(first: str) -> None:
    costs = {"newcomer": (1.4, 1.0), "resident": (1.0, 1.4)}[first]
    pair = PairCost(KindId("b"), costs[0], costs[0], costs[1], costs[1])
    play = Playbook().forecast("a", a_forecast(30, 1)).forecast("b", a_forecast(30, 1))
    play.forecast("a", a_forecast(30, 1, pairs=(pair,)), beside=("b",))
    play.happen(a_report(a_device()), Submitted(a_job(1, kind="b"))).settle()

    play.happen(Submitted(a_job(2, kind="a"))).settle()

    assert play.launched() == {1: "gpu0"}
    assert play.reason(2) is Rule.SLOWDOWN_BUDGET


def test_a_known_pair_is_tried_beyond_the_limit_on_load() -> None:
    pair = PairCost(KindId("b"), 1.05, 1.2, 1.05, 1.2)
    play = Playbook().forecast("a", a_forecast(70, 1, pairs_known=True)).forecast("b", a_forecast(70, 1))
    play.forecast("a", a_forecast(70, 1, pairs=(pair,), pairs_known=True), beside=("b",))
    play.happen(a_report(a_device()), Submitted(a_job(1, kind="b"))).settle()

    play.happen(Submitted(a_job(2, kind="a"))).settle()

    assert play.launched() == {1: "gpu0", 2: "gpu0"}


def test_jobs_that_must_be_alone_are() -> None:
    play = Playbook().forecast("kind", a_forecast(10, 1))
    play.happen(a_report(a_device()), Submitted(a_job(1, sharing=Sharing.NEVER)), Submitted(a_job(2))).settle()

    assert play.launched() == {1: "gpu0"}
    assert play.reason(2) is Rule.EXCLUSIVE


def test_without_devices_jobs_wait_with_that_reason() -> None:
    play = Playbook().happen(Submitted(a_job(1))).settle()

    assert play.reason(1) is Rule.NO_DEVICES


def test_a_device_with_a_stale_reading_admits_no_job() -> None:
    play = Playbook().happen(a_report(a_device())).happen(Woke(), after=60).happen(Submitted(a_job(1))).settle()

    assert play.reason(1) is Rule.STALE_READING


def test_a_host_that_can_start_nothing_is_passed_over_until_it_can() -> None:
    waits = NoStarts("no process can be started", 900.0, 960.0)
    failing = replace(a_report(a_device("gpu-a", host="a"), host="a"), no_starts=waits)
    play = Playbook().happen(failing, Submitted(a_job(1))).settle()
    assert play.reason(1) is Rule.NO_STARTS
    verdict = play.state.verdicts[JobId(1)]
    numbers = {"host": "a", "why": "no process can be started", "since_at": 900.0, "again_at": 960.0}
    assert dict(verdict.numbers) == numbers
    play.happen(a_report(a_device("gpu-b", host="b"), host="b")).settle()
    assert play.launched() == {1: "gpu-b"}
    play.happen(Submitted(a_job(2))).settle()
    assert 2 not in play.launched()
    play.happen(a_report(a_device("gpu-a", host="a"), host="a")).settle()
    assert play.launched() == {1: "gpu-b", 2: "gpu-a"}


def test_an_unwell_device_gets_no_jobs_and_does_again_when_it_is_well() -> None:
    unwell = a_reading(unwell="XID 95: an uncontained memory error")
    play = Playbook().happen(a_report(a_device("sick"), readings={"sick": unwell}), Submitted(a_job(1))).settle()
    assert play.reason(1) is Rule.UNWELL
    play.happen(a_report(a_device("sick"), a_device("fit"), readings={"sick": unwell})).settle()
    assert play.launched() == {1: "fit"}
    play.happen(Submitted(a_job(2))).settle()
    assert 2 not in play.launched()
    play.happen(a_report(a_device("sick"), a_device("fit"))).settle()
    assert play.launched() == {1: "fit", 2: "sick"}


@pytest.mark.parametrize("last_report", [0, 1, 3])
def test_a_job_launched_on_a_host_that_is_cut_off_runs_elsewhere_within_15_s(last_report: int) -> None:
    cut_off, other = a_report(a_device("gpu0", host="a"), host="a"), a_report(a_device("gpu1", host="b"), host="b")
    play = Playbook().happen(cut_off, other, Submitted(a_job(1))).settle()
    assert play.launched() == {1: "gpu0"}
    for second in range(1, 16):
        play.happen(other, *[cut_off] * (second <= last_report), after=1.0)
        if Revoke(AttemptId(JobId(1), 1)) in play.decide():
            play.happen(
                an_exit(1, Ending.NEVER_STARTED, None)
            ).settle()  # as the shell answers if nothing has claimed it
    assert play.launched() == {1: "gpu1"}


def test_a_host_that_reports_and_carries_out_no_order_does_not_keep_a_job_from_the_others() -> None:
    """Its device is idle, so the first job in the queue would be launched there again and again, while others run elsewhere."""
    deaf = a_report(a_device("gpu0", host="a"), host="a")
    busy = a_report(a_device("gpu1", host="b"), host="b", residents=(a_resident(2),))
    play = Playbook().happen(deaf, busy, Submitted(a_job(1)), Submitted(a_job(2))).settle().happen(a_start(2))
    assert play.launched() == {1: "gpu0", 2: "gpu1"}
    for _ in range(30):
        play.happen(deaf, busy, after=1.0)
        for attempt in [action.attempt for action in play.decide() if isinstance(action, Revoke)]:
            play.happen(an_exit(1, Ending.NEVER_STARTED, None, attempt.number)).settle()
    no_starts = play.state.hosts[HostId("a")].no_starts
    assert no_starts is not None
    assert "did not carry out" in no_starts.why

    play.happen(Submitted(a_job(3)), an_exit(2)).settle()
    assert play.launched()[1] == "gpu1"

    play.happen(deaf, after=30.0).settle()
    assert play.launched()[3] == "gpu0", "it is tried again now and then"
    play.happen(a_start(3), deaf).settle()
    host = play.state.hosts[HostId("a")]
    assert (host.unanswered, host.no_starts) == (None, None)


def test_a_small_device_is_passed_over_for_one_that_fits() -> None:
    devices = [a_device(f"small{n}", gib=8) for n in range(20)] + [a_device("zlarge", gib=80)]
    play = Playbook().happen(a_report(*devices), Submitted(a_job(1, declared_memory=60 * GIB))).settle()

    assert play.launched() == {1: "zlarge"}


def test_a_job_too_large_for_every_device_gets_a_verdict_with_the_missing_memory() -> None:
    play = (
        Playbook().happen(Submitted(a_job(1, declared_memory=30 * GIB))).settle().happen(a_report(a_device())).settle()
    )

    verdict = play.verdict(1)
    assert verdict is not None
    assert verdict.rule is Rule.NEVER_FITS
    assert dict(verdict.numbers)["missing_bytes"] == 6 * GIB


def test_a_device_used_up_by_foreign_processes_is_passed_over() -> None:
    full = a_reading(used_memory=20 * GIB, foreign_memory=20 * GIB)
    report = a_report(a_device("gpu0"), a_device("gpu1"), readings={"gpu0": full})

    play = Playbook().forecast("kind", a_forecast(10, 12)).happen(report, Submitted(a_job(1))).settle()

    assert play.launched() == {1: "gpu1"}


def test_a_first_run_finds_the_one_device_that_foreign_processes_leave_alone() -> None:
    taken = a_reading(used_memory=6 * GIB, foreign_memory=6 * GIB)
    devices = [a_device(f"gpu{n:02}") for n in range(20)]
    report = a_report(*devices, readings={device.id: taken for device in devices[:-1]})

    play = Playbook().happen(report, Submitted(a_job(1))).settle()

    assert play.launched() == {1: "gpu19"}


def test_the_forecast_and_the_features_travel_with_the_launch() -> None:
    forecast = a_forecast(33, 3, model_version="v0007")
    play = Playbook().forecast("kind", forecast).happen(a_report(a_device()), Submitted(a_job(1))).settle()

    launch = next(a for a in play.done if isinstance(a, Launch))
    assert launch.attempt.forecast == forecast
    assert launch.attempt.promised == (3 * GIB,)
    assert play.state.jobs[JobId(1)].attempt == 1


def test_forecast_of_a_job_on_two_devices_includes_the_partner_on_one_of_them() -> None:
    play = Playbook().forecast("gang", a_forecast(30, 2)).forecast("small", a_forecast(30, 2))
    beside = a_forecast(30, 2, expected_slowdown=1.05)
    play.forecast("gang", beside, beside=("small",))
    play.happen(a_report(a_device("gpu0"), a_device("gpu1")), Submitted(a_job(1, kind="small"))).settle()
    play.happen(Submitted(a_job(2, kind="gang", device_count=2))).settle()

    (launch,) = [a for a in play.done if isinstance(a, Launch) and a.attempt.id.job == 2]
    assert set(launch.attempt.devices) == {"gpu0", "gpu1"}
    assert launch.attempt.forecast.expected_slowdown == 1.05
    assert launch.verdict.rule is Rule.FITS, "of the device with the partner, not of the idle one"


def test_a_job_that_waits_for_a_device_that_is_unwell_says_so() -> None:
    sick = a_reading(unwell="XID 79: it has fallen off the bus")
    report = a_report(a_device("gpu0"), a_device("gpu1"), readings={"gpu0": a_reading(), "gpu1": sick})
    play = Playbook().happen(report, Submitted(a_job(1, device_count=2, kind="gang"))).settle()
    verdict = play.verdict(1)
    assert verdict is not None
    assert dict(verdict.numbers) == {"wanted_devices": 2, "devices": 2, "busy_devices": 0, "unusable_devices": 1}


def test_a_job_on_two_devices_says_how_many_it_waits_for() -> None:
    play = Playbook().happen(a_report(a_device("gpu0"), a_device("gpu1")), Submitted(a_job(1))).settle()
    play.happen(Submitted(a_job(2, device_count=2, kind="gang"))).settle()
    verdict = play.verdict(2)
    assert verdict is not None
    assert dict(verdict.numbers) == {"wanted_devices": 2, "devices": 2, "busy_devices": 1}


def test_a_drained_host_keeps_its_jobs_and_gets_no_more_until_it_is_resumed() -> None:
    play = Playbook().forecast("kind", a_forecast(20, 1))
    play.happen(a_report(a_device("gpu0"), a_device("gpu1")), Submitted(a_job(1))).settle()

    play.happen(HostDrained(HostId("host"), "ann", "new driver"), Submitted(a_job(2))).settle()

    assert play.launched() == {1: "gpu0"}
    verdict = play.verdict(2)
    assert verdict is not None
    assert (verdict.rule, dict(verdict.numbers)) == (Rule.DRAINED, {"why": "new driver"})
    play.happen(a_report(a_device("gpu0"), a_device("gpu1")), a_start(1), an_exit(1)).settle()
    assert play.reason(2) is Rule.DRAINED, "a report does not put it back into service"

    play.happen(HostResumed(HostId("host"), "ann")).settle()
    assert play.launched() == {1: "gpu0", 2: "gpu0"}


def test_while_one_host_is_drained_jobs_start_on_another() -> None:
    far = a_device("far0", host="far")
    play = Playbook().happen(a_report(a_device("gpu0")), a_report(far, host="far"))
    play.happen(HostDrained(HostId("host"), "ann", "new driver"), Submitted(a_job(1)), Submitted(a_job(2))).settle()

    assert play.launched() == {1: "far0"}
    assert play.reason(2) is Rule.FIRST_RUN_EXCLUSIVE, "job 1 has the only device that is in service"


@pytest.mark.parametrize(("instance", "leased"), [("home-1", True), (None, False)])
def test_a_lease_is_given_where_the_host_would_end_the_job_with_it(instance: str | None, leased: bool) -> None:
    """Hosts of the previous release report no instance, and would not."""
    play = Playbook().happen(replace(a_report(a_device()), instance=instance))
    play.happen(Submitted(a_job(1, requeue_on_node_fail=True))).settle()
    (attempt,) = play.state.attempts.values()
    assert attempt.lease_s == (play.limits.lease_s if leased else None)
