"""A short job runs while the residents of its devices stand still, for as long as their slowdown accounts allow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuq.core.measuring.account import slowdown_account
from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.scheduling.limits import Limits
from gpuq.core.scheduling.pauses import RESERVE_S, account_of, pausable_s
from gpuq.core.scheduling.policy import Proposal
from gpuq.core.state.actions import Launch, LeaveUnpaused, Pause, Resume
from gpuq.core.state.attempt import Attempt, AttemptId, Ending
from gpuq.core.state.events import CancelRequested, Submitted
from gpuq.core.state.job import JobId, JobState
from gpuq.core.state.verdict import Rule
from tests.support.nouns import a_device, a_forecast, a_job, a_report, a_resident, a_start, an_exit
from tests.support.playbook import Playbook

HOUR = 3600.0
LIMITS = Limits(pauses=True, max_slowdown=1.2)
LONG, SHORT = 10 * HOUR, 300.0
RESIDENT, NEWCOMER = AttemptId(JobId(1), 1), AttemptId(JobId(2), 1)


def report(
    play: Playbook, *jobs: int, slowed: float | None = 0.0, paused: dict[int, float] | None = None, **more: Any
) -> None:
    """Hosts report each second; here whenever it matters."""
    seen = tuple(
        replace(a_resident(job, gib=4), slowed_s=slowed, paused_s=(paused or {}).get(job, 0.0), **more) for job in jobs
    )
    play.happen(a_report(a_device(), residents=seen))


def busy(ran_s: float = 2 * HOUR, limits: Limits = LIMITS, slowed: float | None = 0.0, **wishes: Any) -> Playbook:
    """Job 1 has run alone for two hours on the only device, and nothing may share it for its load."""
    play = Playbook(limits)
    known = {"duration_runs": 9}
    play.forecast("long", a_forecast(98, 4, duration_p50_s=LONG, duration_p90_s=LONG, **known))
    play.forecast("short", a_forecast(98, 4, duration_p50_s=SHORT, duration_p90_s=SHORT, **known))
    play.happen(a_report(a_device()), Submitted(a_job(1, kind="long", **wishes))).settle()
    play.happen(a_start(1), after=1)
    play.now += ran_s
    report(play, 1, slowed=slowed)
    return play


def with_newcomer(play: Playbook, kind: str = "short", **wishes: Any) -> Playbook:
    return play.happen(Submitted(a_job(2, kind=kind, submitted_at=play.now, **wishes))).settle()


def resident(play: Playbook) -> Attempt:
    return play.state.attempts[RESIDENT]


def test_the_resident_stands_still_while_a_short_job_runs() -> None:
    play = with_newcomer(busy())
    launch = next(action for action in play.done if isinstance(action, Launch) and action.attempt.id == NEWCOMER)
    assert launch.pauses == (RESIDENT,)
    assert launch.verdict.rule is Rule.PAUSE
    numbers = dict(launch.verdict.numbers)
    assert numbers["pause_needed_s"] == 2 * SHORT
    assert numbers["pause_allowed_s"] == pytest.approx(0.2 * 2 * HOUR, abs=10)
    assert resident(play).paused_for == NEWCOMER
    play.happen(a_start(2), after=SHORT)
    report(play, 1, 2, paused={1: SHORT})
    play.happen(an_exit(2)).settle()
    assert resident(play).paused_for is None


@pytest.mark.parametrize(
    ("changes", "job"),
    [
        ({"pausable": False}, {}),
        ({"time_limit_s": 1e6}, {}),
        ({}, {"kind": "unheard of"}),
        ({"max_slowdown": 1.01}, {}),
        ({}, {"declared_memory": 20 * 2**30}),
    ],
)
def test_it_is_left_alone(changes: dict[str, Any], job: dict[str, Any]) -> None:
    play = with_newcomer(busy(**changes), **job)
    assert list(play.launched()) == [1]
    assert resident(play).paused_for is None


def test_what_partners_cost_must_be_known() -> None:
    assert list(with_newcomer(busy(slowed=None)).launched()) == [1]
    assert list(with_newcomer(busy(slowed=0.1 * HOUR)).launched()) == [1, 2], "0.28 hours are left"
    assert list(with_newcomer(busy(slowed=0.3 * HOUR)).launched()) == [1]


def test_nothing_is_paused_unless_the_site_allows_it() -> None:
    assert list(with_newcomer(busy(limits=replace(LIMITS, pauses=False))).launched()) == [1]


def test_a_time_limit_says_how_long_a_job_takes() -> None:
    play = with_newcomer(busy(), kind="unheard of", time_limit_s=60.0)
    assert list(play.launched()) == [1], "a kind that is not known gets a device alone"
    play = busy()
    play.forecast("new", a_forecast(98, 4, duration_p90_s=SHORT, duration_runs=1))
    assert list(with_newcomer(play, kind="new").launched()) == [1], "a single run says little"
    assert list(
        play.happen(Submitted(a_job(3, kind="new", time_limit_s=60.0, submitted_at=play.now))).settle().launched()
    ) == [1, 3]


def test_the_resident_goes_on_before_its_account_is_empty_and_the_newcomer_waits_then() -> None:
    play = with_newcomer(busy())
    play.happen(a_start(2))
    began, least = play.now, 1e9
    for _ in range(4000):
        play.now += 1
        after = play.state.attempts[NEWCOMER].paused_s or 0.0
        report(
            play,
            1,
            2,
            paused={
                1: account_of_pauses(play, RESIDENT),
                2: after + (play.state.attempts[NEWCOMER].paused_for is not None),
            },
        )
        play.settle()
        account = account_of(resident(play), LIMITS, play.now)
        assert account is not None
        assert account.left_s is not None
        least = min(least, account.left_s)
    assert least >= 0
    assert any(action == Resume(RESIDENT) for action in play.done)
    assert play.now - began > SHORT


def account_of_pauses(play: Playbook, attempt: AttemptId) -> float:
    found = play.state.attempts[attempt]
    return (found.paused_s or 0.0) + (1.0 if found.paused_for is not None else 0.0)


def test_a_partner_is_paused_when_the_account_is_empty() -> None:
    play = Playbook(LIMITS)
    for kind in ("old", "new"):
        play.forecast(kind, a_forecast(40, 4, duration_p90_s=LONG, duration_runs=9))
    play.happen(a_report(a_device()), Submitted(a_job(1, kind="old"))).settle().happen(a_start(1), after=1)
    play.happen(Submitted(a_job(2, kind="new"))).settle().happen(a_start(2), after=1)
    play.now += HOUR
    report(play, 1, 2, slowed=0.1 * HOUR)
    play.settle()
    assert not [action for action in play.done if isinstance(action, Pause)]
    seen = (
        replace(a_resident(1, gib=4), slowed_s=0.3 * HOUR, paused_s=0.0),
        replace(a_resident(2, gib=4), slowed_s=0.0, paused_s=0.0),
    )
    play.happen(a_report(a_device(), residents=seen)).settle()
    assert play.done[-1] == Pause(NEWCOMER, RESIDENT)
    assert play.state.attempts[NEWCOMER].paused_for == RESIDENT
    play.now += HOUR
    seen = (replace(seen[0], slowed_s=0.3 * HOUR), replace(seen[1], paused_s=0.1 * HOUR))
    play.happen(a_report(a_device(), residents=seen)).settle()
    assert play.done[-1] == Resume(NEWCOMER), "its partner has earned some time"


@pytest.mark.parametrize(("refilled_s", "goes_on"), [(119.0, False), (121.0, True)])
def test_a_partner_goes_on_once_the_account_allows_two_minutes_again(refilled_s: float, goes_on: bool) -> None:
    play = Playbook(LIMITS).forecast("kind", a_forecast(40, 4, duration_p90_s=LONG, duration_runs=9))
    play.happen(a_report(a_device()), Submitted(a_job(1)), Submitted(a_job(2))).settle().happen(a_start(1), a_start(2))

    def lost(seconds: float) -> None:
        first, second = (replace(a_resident(job, gib=4), slowed_s=0.0, paused_s=0.0) for job in (1, 2))
        play.happen(a_report(a_device(), residents=(replace(first, slowed_s=seconds), second))).settle()

    play.now += 2 * HOUR
    earned = (play.now - (resident(play).started_at or 0.0)) * 0.2
    lost((earned + 60) / 1.2)
    assert play.state.attempts[NEWCOMER].paused_for == RESIDENT

    lost((earned - RESERVE_S - refilled_s) / 1.2)
    assert (play.state.attempts[NEWCOMER].paused_for is None) is goes_on


def test_a_job_that_its_host_has_not_reported_lately_is_not_paused() -> None:
    play = busy()
    at = resident(play).last_reported
    assert at is not None
    assert pausable_s(play.state, resident(play), LIMITS, at + LIMITS.stale_after_s) > 0
    assert pausable_s(play.state, resident(play), LIMITS, at + LIMITS.stale_after_s + 1) == 0


def test_a_paused_job_goes_on_when_its_host_falls_silent() -> None:
    """What its pause costs is not known any more."""
    play = with_newcomer(busy()).happen(a_start(2))
    play.happen(after=LIMITS.stale_after_s).settle()
    assert resident(play).paused_for == NEWCOMER
    play.happen(after=1).settle()
    assert resident(play).paused_for is None


def test_a_report_in_a_pause_counts_none_of_it_twice() -> None:
    play = with_newcomer(busy()).happen(a_start(2))
    play.happen(after=60)
    report(play, 1, 2, paused={1: 60.0})
    account = account_of(resident(play), LIMITS, play.now + 40)
    assert account is not None
    assert account.paused_s == 100


def test_a_job_on_two_devices_stands_still_for_one_newcomer_at_a_time() -> None:
    """Even if a policy proposes otherwise."""
    devices = (a_device("gpu0"), a_device("gpu1"))

    def one_on_each(context: SchedulingContext) -> Iterator[Proposal]:
        for job, device in zip(context.waiting, devices, strict=False):
            yield Proposal(job, (device,), pausing=True)

    play = Playbook(LIMITS)
    for kind, takes in (("long", LONG), ("short", SHORT)):
        play.forecast(kind, a_forecast(98, 4, duration_p50_s=takes, duration_p90_s=takes, duration_runs=9))
    play.happen(a_report(*devices), Submitted(a_job(1, kind="long", device_count=2))).settle().happen(a_start(1))
    play.now += 2 * HOUR
    play.happen(a_report(*devices, residents=(replace(a_resident(1, gib=4), slowed_s=0.0, paused_s=0.0),)))

    play.policy = one_on_each
    play.happen(*(Submitted(a_job(job, kind="short", submitted_at=play.now)) for job in (2, 3))).decide()
    assert list(play.launched()) == [1, 2]
    assert resident(play).paused_for == NEWCOMER


def test_all_that_stand_still_for_a_gang_go_on_once_one_has_to_and_the_gang_waits_then() -> None:
    """Job 1 has run for ten hours and could stand still for longer than job 2, which has run for two."""
    devices = a_device("gpu0"), a_device("gpu1")
    play = Playbook(LIMITS)
    for kind, takes in (("long", 10 * LONG), ("short", SHORT)):
        play.forecast(kind, a_forecast(98, 4, duration_p50_s=takes, duration_p90_s=takes, duration_runs=9))
    play.happen(a_report(*devices))

    def goes_by(seconds: float) -> None:
        """A report comes every five seconds; what is paused has stood still since the last."""
        for _ in range(int(seconds / 5)):
            running = play.state.attempts.values()
            seen = [(a.id.job, (a.paused_s or 0.0) + 5 * (a.paused_for is not None)) for a in running]
            residents = (replace(a_resident(job, gib=4), slowed_s=0.0, paused_s=paused) for job, paused in seen)
            play.happen(a_report(*devices, residents=tuple(residents)), after=5).decide()

    for job, ran_s in ((1, 8 * HOUR), (2, 2 * HOUR)):
        play.happen(a_report(*devices), Submitted(a_job(job, kind="long"))).settle().happen(a_start(job))
        play.now += ran_s
    goes_by(5)
    play.happen(Submitted(a_job(3, kind="short", device_count=2, submitted_at=play.now))).settle().happen(a_start(3))
    gang = AttemptId(JobId(3), 1)
    assert [a.paused_for for a in play.state.attempts.values()] == [gang, gang, None]

    goes_by(0.2 * 2 * HOUR + 5)
    assert [a.paused_for for a in play.state.attempts.values()] == [None, None, None]
    losing = replace(a_resident(2, gib=4), slowed_s=60.0, paused_s=play.state.attempts[NEWCOMER].paused_s)
    play.happen(a_report(*devices, residents=(losing,)), after=1).decide()
    assert [a.paused_for for a in play.state.attempts.values()] == [None, None, NEWCOMER]


def test_a_job_that_is_cancelled_goes_on_at_once_to_end() -> None:
    play = with_newcomer(busy()).happen(a_start(2))
    play.happen(CancelRequested(JobId(1), "ada")).settle()
    assert resident(play).paused_for is None
    assert resident(play).stopping is not None


def test_a_kind_that_failed_soon_after_a_pause_is_left_alone() -> None:
    play = with_newcomer(busy()).happen(a_start(2), after=SHORT)
    report(play, 1, 2, paused={1: SHORT})
    play.happen(an_exit(2)).settle()
    play.happen(an_exit(1, Ending.EXITED, 1), after=20).settle()
    assert LeaveUnpaused(a_job(1, kind="long").kind) in play.done
    report(play)
    play.happen(Submitted(a_job(3, kind="long"))).settle().happen(a_start(3), after=1)
    play.now += 2 * HOUR
    report(play, 3)
    play.happen(Submitted(a_job(4, kind="short", submitted_at=play.now))).settle()
    assert play.job_state(4) is JobState.PENDING


def test_a_job_that_its_host_could_not_pause_is_left_alone() -> None:
    play = with_newcomer(busy()).happen(a_start(2), after=2)
    report(play, 1, 2, not_pausable="a debugger is attached to it")
    play.settle()
    assert play.done[-1] == Resume(RESIDENT)


@given(st.floats(1.01, 3), st.floats(0, 1e6), st.floats(0, 1e5))
def test_the_account_of_a_paused_job_counts_the_time_since_the_last_report(
    budget: float, ran: float, since: float
) -> None:
    attempt = replace(
        resident(busy()), started_at=0.0, max_slowdown=budget, slowed_s=0.0, paused_s=0.0, last_reported=ran,
        paused_for=NEWCOMER, paused_at=ran,
    )  # fmt: skip
    assert account_of(attempt, LIMITS, ran + since) == slowdown_account(budget, ran + since, 0.0, (ran + since) - ran)
