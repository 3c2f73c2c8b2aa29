"""Jobs on several hosts at once: one attempt on each, all or nothing, whatever order claims, ends and losses come in."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuq.core.scheduling.decide import decide
from gpuq.core.scheduling.limits import Limits
from gpuq.core.scheduling.policy import Proposal
from gpuq.core.state.actions import Launch, Requeue, Revoke, Stop
from gpuq.core.state.apply import apply
from gpuq.core.state.attempt import AttemptId, Ending, StopReason
from gpuq.core.state.device import Device
from gpuq.core.state.events import CancelRequested, HostReported, Submitted
from gpuq.core.state.job import ACTIVE, ENDED, Job, JobId, JobState, Sharing
from gpuq.core.state.transitions import Step
from gpuq.core.state.verdict import Rule
from tests.support.nouns import a_device, a_forecast, a_job, a_report, a_resident, a_start, an_exit
from tests.support.playbook import Playbook


def hosts(*sizes: int, gib: float = 24) -> list[tuple[Device, ...]]:
    return [tuple(a_device(f"h{h}/{d}", gib, host=f"h{h}") for d in range(size)) for h, size in enumerate(sizes)]


def playing(*sizes: int, limits: Limits | None = None) -> Playbook:
    play = Playbook(limits)
    return play.happen(*(a_report(*devices, host=devices[0].host) for devices in hosts(*sizes)))


def over_hosts(number: int = 1, count: int = 4, on: int = 2, **changes: object) -> Job:
    return a_job(number, device_count=count, host_count=on, sharing=Sharing.NEVER, **changes)


def launches(play: Playbook) -> list[Launch]:
    return [action for action in play.done if isinstance(action, Launch)]


def stopped(play: Playbook) -> list[tuple[int, StopReason]]:
    return [(action.attempt.number, action.reason) for action in play.done if isinstance(action, Stop)]


def running(*sizes: int, **changes: object) -> Playbook:
    play = playing(*(sizes or (2, 2))).happen(Submitted(over_hosts(**changes))).settle()
    return play.happen(a_start(1, 1), a_start(1, 2))


def test_one_start_has_an_attempt_on_each_host_with_equally_many_devices() -> None:
    play = playing(3, 2).happen(Submitted(over_hosts())).settle()

    (launch,) = launches(play)
    assert [(one.id.number, one.host, one.devices) for one in launch.attempts] == [
        (1, "h1", ("h1/0", "h1/1")),
        (2, "h0", ("h0/0", "h0/1")),
    ]
    assert all(one.gang == launch.attempt.gang and not one.shares for one in launch.attempts)
    gang = launch.attempt.gang
    assert gang is not None
    assert (gang.first, gang.hosts, gang.address) == (1, ("h1", "h0"), "h1")
    assert 20_000 <= gang.port < 30_000


def test_the_address_is_the_one_that_the_first_host_reports() -> None:
    play = Playbook()
    for devices in hosts(1, 1):
        report = a_report(*devices, host=devices[0].host)
        named = HostReported(
            report.host, "boot", 0.0, report.devices, report.readings, (), address=f"10.0.0.{devices[0].host}"
        )
        play.happen(named)
    play.happen(Submitted(over_hosts(count=2))).settle()

    gang = launches(play)[0].attempt.gang
    assert gang is not None
    assert gang.address == f"10.0.0.{gang.hosts[0]}"


def test_it_waits_while_too_few_hosts_have_enough_free_devices() -> None:
    play = playing(2, 2).happen(Submitted(a_job(2))).settle()
    play.happen(Submitted(over_hosts())).settle()
    assert play.job_state(1) is JobState.PENDING
    assert play.reason(1) is Rule.RESOURCES

    play.happen(a_start(2), an_exit(2)).settle()
    assert play.job_state(1) is JobState.STARTING


@pytest.mark.parametrize(("sizes", "wanted"), [((4,), "wanted_hosts"), ((3, 1), "wanted_devices")])
def test_one_that_the_hosts_could_never_hold_gets_the_verdict_never_fits(sizes: tuple[int, ...], wanted: str) -> None:
    play = playing(*sizes).happen(Submitted(over_hosts())).settle()
    verdict = play.verdict(1)
    assert verdict is not None
    assert verdict.rule is Rule.NEVER_FITS
    assert dict(verdict.numbers)[wanted] == 2


def test_no_other_job_joins_it_on_its_devices() -> None:
    play = playing(1, 1)
    play.forecast("job", a_forecast(10.0, 1.0))
    play.happen(Submitted(over_hosts(count=2))).settle()
    play.happen(a_start(1, 1), a_start(1, 2), Submitted(a_job(2))).settle()
    assert play.job_state(2) is JobState.PENDING


def test_it_runs_once_all_of_it_has_started() -> None:
    play = playing(2, 2).happen(Submitted(over_hosts())).settle().happen(a_start(1, 2))
    assert play.job_state(1) is JobState.STARTING
    play.happen(a_start(1, 1))
    assert play.job_state(1) is JobState.RUNNING


def test_it_has_completed_once_all_of_it_ended_well() -> None:
    play = running().happen(an_exit(1, attempt=2)).settle()
    assert (play.job_state(1), stopped(play), set(play.state.residents)) == (JobState.RUNNING, [], {"h0/0", "h0/1"})
    play.happen(an_exit(1, attempt=1))
    assert play.job_state(1) is JobState.COMPLETED


def test_when_one_attempt_fails_the_others_are_stopped_and_the_job_has_failed() -> None:
    play = running().happen(an_exit(1, code=3, attempt=2)).settle()
    assert stopped(play) == [(1, StopReason.GANG)]
    assert play.job_state(1) is JobState.COMPLETING
    play.happen(an_exit(1, Ending.STOPPED, None, attempt=1))
    assert play.job_state(1) is JobState.FAILED


@pytest.mark.parametrize("lost_first", [True, False])
def test_a_lost_host_explains_the_failure_of_the_other(lost_first: bool) -> None:
    play = running()
    ends = [an_exit(1, Ending.LOST, None, attempt=1), an_exit(1, code=1, attempt=2)]
    for end in ends if lost_first else reversed(ends):
        play.happen(end)
    assert play.job_state(1) is JobState.NODE_FAIL


def test_with_requeue_it_is_started_again_with_new_numbers_once_nothing_of_it_is_left() -> None:
    play = running(2, 2, 2, requeue_on_node_fail=True)
    play.happen(an_exit(1, Ending.LOST, None, attempt=1)).settle()
    assert stopped(play) == [(2, StopReason.GANG)]
    assert len(launches(play)) == 1
    play.happen(an_exit(1, Ending.STOPPED, None, attempt=2)).settle()
    assert any(isinstance(action, Requeue) for action in play.done)
    assert [one.id.number for one in launches(play)[-1].attempts] == [3, 4]


def test_an_attempt_that_was_never_claimed_is_revoked_and_the_whole_job_waits_again() -> None:
    play = (
        playing(2, 2, limits=Limits(stale_after_s=10.0)).happen(Submitted(over_hosts())).settle().happen(a_start(1, 1))
    )
    first = launches(play)[0].attempt.host
    for _ in range(30):
        mine = tuple(device for device in play.state.devices.values() if device.host == first)
        play.happen(a_report(*mine, residents=(a_resident(1, 1),), host=first), after=1.0).settle()
    assert [action.attempt.number for action in play.done if isinstance(action, Revoke)] == [2]
    play.happen(an_exit(1, Ending.NEVER_STARTED, None, attempt=2)).settle()
    assert stopped(play) == [(1, StopReason.GANG)]
    play.happen(an_exit(1, Ending.STOPPED, None, attempt=1))
    assert play.job_state(1) is JobState.PENDING


def test_a_cancel_stops_all_of_it() -> None:
    play = running().happen(CancelRequested(JobId(1), "me")).settle()
    assert stopped(play) == [(1, StopReason.CANCELLED), (2, StopReason.CANCELLED)]
    play.happen(an_exit(1, Ending.STOPPED, None, attempt=1), an_exit(1, code=1, attempt=2))
    assert play.job_state(1) is JobState.CANCELLED


def test_devices_of_enough_hosts_are_reserved_for_one_that_waits_long() -> None:
    limits = Limits(patience_s=60.0, patience_ratio=0.0)
    play = playing(2, 2, limits=limits)
    play.happen(*(Submitted(a_job(number)) for number in range(2, 6))).settle()
    play.happen(*(a_start(number) for number in range(2, 6)), Submitted(over_hosts(submitted_at=play.now))).settle()
    devices = hosts(2, 2)
    fresh = [a_report(*each, host=each[0].host) for each in devices]
    play.happen(*fresh, after=100.0).settle()
    assert play.state.reservations[JobId(1)].devices == ("h0/0", "h0/1", "h1/0", "h1/1")


@pytest.mark.parametrize(
    "devices", [("h0/0", "h0/1"), ("h0/0", "h0/1", "h0/2", "h1/0"), ("h0/0", "h1/0", "h2/0", "h2/1")]
)
def test_a_proposal_with_other_devices_is_refused(devices: tuple[str, ...]) -> None:
    play = playing(3, 3, 3).happen(Submitted(over_hosts()))
    job, known = play.state.jobs[JobId(1)], play.state.devices
    proposal = Proposal(job, tuple(known[device] for device in devices))  # type: ignore[index]
    actions = decide(play.state, play.known, play.cache, play.limits, lambda _: iter([proposal]), play.now)
    assert not [action for action in actions if isinstance(action, Launch)]


def test_an_incomplete_gang_is_never_launched() -> None:
    whole = launches(playing(2, 2).happen(Submitted(over_hosts())).settle())[0]
    play = playing(2, 2).happen(Submitted(over_hosts()))
    assert not apply(play.state, Launch(whole.attempt, whole.verdict), play.now)
    assert play.job_state(1) is JobState.PENDING


_ENDS = [
    (Ending.EXITED, 0),
    (Ending.EXITED, 1),
    (Ending.LOST, None),
    (Ending.NEVER_STARTED, None),
    (Ending.OUT_OF_MEMORY, 1),
    (Ending.STOPPED, None),
]
_HAPPENINGS = st.lists(
    st.tuples(
        st.sampled_from(["start", "end", "cancel", "report"]),
        st.integers(0, 7),
        st.sampled_from(_ENDS),
        st.floats(0.0, 8.0),
    ),
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(_HAPPENINGS, st.booleans())
def test_it_runs_whole_or_is_being_stopped_and_leaves_no_device_behind(
    happenings: list[tuple[str, int, tuple[Ending, int | None], float]], requeue: bool
) -> None:
    """`validate` runs after every step: no device is leaked or doubled, and no job has more attempts than one on each host."""
    play = playing(2, 2, 2, 1)
    play.happen(
        Submitted(over_hosts(1, requeue_on_node_fail=requeue)), Submitted(over_hosts(2, 3, 3)), Submitted(a_job(3))
    )
    play.settle()
    for what, which, (ending, code), after in happenings:
        play.now += after
        alive = sorted(play.state.attempts)
        if what == "report":
            for devices in hosts(2, 2, 2, 1):
                play.happen(a_report(*devices, host=devices[0].host))
        elif what == "cancel":
            play.happen(CancelRequested(JobId(1 + which % 3), "me"))
        elif alive:
            id_ = alive[which % len(alive)]
            play.happen(a_start(*id_) if what == "start" else an_exit(id_.job, ending, code, id_.number))
        play.settle()
        for job in play.state.jobs.values():
            left = play.state.attempts_of(job)
            broken = play.state.gang_ends.get(job.id, Step.COMPLETE) is not Step.COMPLETE
            assert not broken or all(one.stopping is not None for one in left)
    for _ in range(40):  # whatever is launched again ends too
        for id_ in list(play.state.attempts):
            play.happen(an_exit(id_.job, Ending.EXITED, 0, id_.number))
        play.settle()
        if not play.state.attempts:
            break
    assert not play.state.residents
    assert not play.state.gang_ends
    assert not [job for job in play.state.jobs.values() if job.state in ACTIVE | ENDED]
    assert AttemptId(JobId(1), 0) not in play.state.attempts


def test_a_gang_that_starts_again_meets_at_another_port() -> None:
    """What is left of the first start may still hold it. That it lost two attempts at once counts as one loss."""
    play = running(requeue_on_node_fail=True)
    play.happen(an_exit(1, Ending.LOST, None, 1), an_exit(1, Ending.LOST, None, 2)).settle()
    ports = [launch.attempt.gang.port for launch in launches(play) if launch.attempt.gang is not None]
    assert len(set(ports)) == len(ports) == 2
