"""Whatever a policy does wrong, the default policy takes over at that moment and the fault is reported."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import EntryPoint
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuq.core.scheduling.cache import PassCache
from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.scheduling.decide import decide
from gpuq.core.scheduling.policy import Eviction, Policy, Proposal
from gpuq.core.state.actions import Action, Launch
from gpuq.core.state.events import Submitted
from gpuq.core.state.job import JobId
from gpuq.errors import BadInput
from gpuq.policies import registry
from gpuq.policies.guard import Guarded, guard
from gpuq.policies.lists.packed import packed
from gpuq.policies.spec import PolicySpec
from gpuq.policies.time_limit import TimeLimitExceeded, no_time_limit
from gpuq.settings import Scheduling
from tests.support.nouns import GIB, a_device, a_job, a_report
from tests.support.playbook import Playbook

LIMIT_S = 0.05


def a_queue(jobs: int = 3, devices: int = 3) -> Playbook:
    play = Playbook().happen(a_report(*(a_device(f"gpu{n}") for n in range(devices))))
    return play.happen(*(Submitted(a_job(n)) for n in range(1, jobs + 1)))


def one_pass(play: Playbook, policy: Policy) -> list[Action]:
    return decide(play.state, play.known, PassCache(), play.limits, policy, play.now)


def started(actions: list[Action]) -> list[int]:
    return sorted(action.attempt.id.job for action in actions if isinstance(action, Launch))


def guarded(policy: Any, limit_s: float = LIMIT_S, **given: Any) -> Guarded:
    return Guarded("theirs", policy, packed, limit_s, **given)


def first_only(context: SchedulingContext) -> Iterator[Proposal | Eviction]:
    """A sound policy: the first job on the first device and no other."""
    job = next(iter(context.waiting))
    yield Proposal(job, (next(iter(context.snapshots)).device,))


def test_sound_policy_is_not_replaced() -> None:
    policy = guarded(first_only)

    assert started(one_pass(a_queue(), policy)) == [1]
    assert (policy.fault, policy.serving) == (None, "theirs")


def at_once(context: SchedulingContext) -> Iterator[Proposal]:
    raise ZeroDivisionError("by nought")


def after_the_first(context: SchedulingContext) -> Iterator[Proposal | Eviction]:
    yield from first_only(context)
    raise SystemExit(3)


def no_iterator(context: SchedulingContext) -> Any:
    return 7


def nothing_at_all(context: SchedulingContext) -> Iterator[Any]:
    yield None


def a_tuple(context: SchedulingContext) -> Iterator[Any]:
    yield (context.waiting[0], context.waiting)


def a_device_that_is_none(context: SchedulingContext) -> Iterator[Proposal]:
    yield Proposal(context.waiting[0], (a_device("gpu99"),))


def a_word_for_a_job(context: SchedulingContext) -> Iterator[Any]:
    yield Proposal("the first", (next(iter(context.snapshots)).device,))  # type: ignore[arg-type]


def a_list_for_an_attempt(context: SchedulingContext) -> Iterator[Any]:
    yield Eviction([1, 1], context.waiting[0])  # type: ignore[arg-type]


def no_device(context: SchedulingContext) -> Iterator[Proposal]:
    yield Proposal(context.waiting[0], ())


def a_list_of_devices(context: SchedulingContext) -> Iterator[Any]:
    yield Proposal(context.waiting[0], [snapshot.device for snapshot in context.snapshots])  # type: ignore[arg-type]


def a_generator_exit(context: SchedulingContext) -> Iterator[Proposal]:
    raise GeneratorExit
    yield


def round_in_circles(context: SchedulingContext) -> Iterator[Proposal]:
    snapshot = next(iter(context.snapshots))
    while True:
        yield Proposal(context.waiting[0], (snapshot.device, snapshot.device))


def the_same_start_for_ever(context: SchedulingContext) -> Iterator[Proposal | Eviction]:
    while True:
        yield from first_only(context)


def for_ever(context: SchedulingContext) -> Iterator[Proposal]:
    while True:
        pass
    yield


def for_ever_and_not_lazy(context: SchedulingContext) -> Any:
    while True:
        list(context.choices(context.waiting[0]))


def for_ever_when_closed(context: SchedulingContext) -> Iterator[Any]:
    try:
        yield 7
    finally:
        while True:
            pass


FAULTS: list[tuple[Callable[[SchedulingContext], Any], str]] = [
    (at_once, "it failed: ZeroDivisionError: by nought"),
    (no_iterator, "it failed: TypeError"),
    (nothing_at_all, "it proposed a NoneType, neither a Proposal nor an Eviction"),
    (a_tuple, "it proposed a tuple"),
    (a_device_that_is_none, "which is not a device here"),
    (a_word_for_a_job, "it proposed 'the first' for a job"),
    (a_list_for_an_attempt, "it proposed [1, 1] for an attempt to stop"),
    (no_device, "no tuple of them"),
    (a_list_of_devices, "no tuple of them"),
    (a_generator_exit, "it raised GeneratorExit"),
    (round_in_circles, "proposals in one pass that came to nothing"),
    (the_same_start_for_ever, "proposals in one pass that came to nothing"),
    (for_ever, "longer than policy_time_limit_s = 0.05"),
    (for_ever_and_not_lazy, "longer than policy_time_limit_s = 0.05"),
    (for_ever_when_closed, "it proposed a int"),
]


@pytest.mark.parametrize(("policy", "reason"), FAULTS, ids=lambda value: getattr(value, "__name__", ""))
def test_default_takes_over_after_any_fault_and_all_jobs_start(
    policy: Callable[[SchedulingContext], Any], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    play, watched = (
        a_queue(),
        guarded(policy, LIMIT_S if policy.__name__.startswith("for_ever") else 60),
    )

    one_pass(play, watched)
    assert started(one_pass(play, watched)) == [1, 2, 3]

    assert watched.fault is not None
    assert reason in watched.fault.reason
    assert watched.fault.at == play.now
    assert watched.serving == "packed"
    (line,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert reason in line.getMessage()
    assert "restart the dispatcher" in line.getMessage()


def test_starts_before_the_fault_are_kept() -> None:
    play = a_queue()
    job = play.state.jobs[JobId(1)]

    def third_place_then_fault(context: SchedulingContext) -> Iterator[Proposal]:
        yield Proposal(job, (context.state.devices["gpu2"],))  # type: ignore[index]
        raise SystemExit(3)

    actions = one_pass(play, guarded(third_place_then_fault))

    placed = {a.attempt.id.job: a.attempt.devices for a in actions if isinstance(a, Launch)}
    assert placed[JobId(1)] == ("gpu2",)
    assert set(placed) == {1, 2, 3}


def test_default_finishes_the_pass_of_the_fault() -> None:
    assert started(one_pass(a_queue(), guarded(at_once))) == [1, 2, 3]


def test_a_pass_that_fails_outside_of_the_policy_is_logged_as_its_replacement(caplog: pytest.LogCaptureFixture) -> None:
    policy = guarded(first_only)
    for _ in range(2):
        policy.pass_failed(KeyError("gpu0"), 7.0)
    assert policy.serving == registry.DEFAULT
    (record,) = caplog.records
    assert "the policy `theirs` is replaced" in record.message
    assert "a pass failed" in record.message


def test_proposals_for_jobs_that_no_longer_wait_are_skipped() -> None:
    """And a job or device that the policy changed counts as the state has it."""

    def from_an_old_plan(context: SchedulingContext) -> Iterator[Proposal]:
        devices = [snapshot.device for snapshot in context.snapshots]
        yield Proposal(a_job(77), (devices[0],))
        yield Proposal(replace(context.waiting[0], declared_memory=1), (replace(devices[1], total_memory=999 * GIB),))

    policy = guarded(from_an_old_plan)
    (launch,) = [action for action in one_pass(a_queue(), policy) if isinstance(action, Launch)]

    assert policy.fault is None
    assert (launch.attempt.id.job, launch.attempt.devices) == (1, ("gpu1",))
    assert launch.attempt.promised == (a_device().total_memory,), (
        "without a forecast it gets the whole device of the state"
    )


def test_endless_proposals_for_jobs_that_no_longer_wait_are_a_fault() -> None:
    def for_a_job_that_is_gone(context: SchedulingContext) -> Iterator[Proposal]:
        while True:
            yield Proposal(a_job(77), (next(iter(context.snapshots)).device,))

    policy = guarded(for_a_job_that_is_gone, limit_s=60)
    assert started(one_pass(a_queue(), policy)) == [1, 2, 3]
    assert policy.fault is not None


def test_policy_is_not_called_again_after_its_fault() -> None:
    called_at = []

    def once(context: SchedulingContext) -> Iterator[Proposal]:
        called_at.append(context.now)
        raise ValueError
        yield

    play, policy = a_queue(), guarded(once)
    one_pass(play, policy)
    one_pass(play, policy)

    assert len(called_at) == 1


def test_only_the_policys_own_time_counts_and_adds_up() -> None:
    clock = iter(range(100)).__next__  # each reading is a second later than the last
    play = a_queue(3)

    def one_by_one(context: SchedulingContext) -> Iterator[Proposal]:
        for job, snapshot in zip(context.waiting, context.snapshots, strict=False):
            yield Proposal(job, (snapshot.device,))

    # By that clock the call and each of the four steps take a second, so the last step ends after five.
    within = guarded(one_by_one, limit_s=5, time_limit=no_time_limit, clock=clock)
    assert started(one_pass(play, within)) == [1, 2, 3]
    assert within.fault is None

    beyond = guarded(one_by_one, limit_s=4, time_limit=no_time_limit, clock=clock)
    assert started(one_pass(play, beyond)) == [1, 2, 3]
    assert beyond.fault is not None


def test_each_step_has_the_rest_of_the_limit() -> None:
    given_s: list[float] = []
    clock = iter(range(100)).__next__

    def time_limit(work: Callable[[], Any], seconds: float) -> Any:
        given_s.append(seconds)
        if seconds <= 8:
            raise TimeLimitExceeded
        return work()

    policy = guarded(first_only, limit_s=10, time_limit=time_limit, clock=clock)
    one_pass(a_queue(), policy)

    assert given_s[:3] == [10, 9, 8]
    assert policy.fault is not None


def test_keyboard_interrupt_is_not_caught() -> None:
    def interrupted(context: SchedulingContext) -> Iterator[Proposal]:
        raise KeyboardInterrupt
        yield

    policy = guarded(interrupted)
    with pytest.raises(KeyboardInterrupt):
        one_pass(a_queue(), policy)
    assert policy.fault is None


@settings(deadline=None, max_examples=30)  # each fault is logged with its traceback, which is slow
@given(
    st.lists(
        st.sampled_from([policy for policy, _ in FAULTS if not policy.__name__.startswith("for_ever")]), max_size=4
    )
)
def test_all_jobs_that_fit_start_whatever_the_policies_do(policies: list[Callable[[SchedulingContext], Any]]) -> None:
    """With a guard, no sequence of faults keeps a job from its device."""
    play = a_queue()
    for policy in policies:
        watched = guarded(policy, limit_s=60)
        one_pass(play, watched)  # jobs that were refused for the policy stay refused in this pass
        assert started(one_pass(play, watched)) == [1, 2, 3]


# --- from the settings ---------------------------------------------------------------------------------------------


def offer(monkeypatch: pytest.MonkeyPatch, **specs: str) -> None:
    points = [EntryPoint(name, f"{__name__}:{value}", registry.GROUP) for name, value in specs.items()]
    points.append(EntryPoint("packed", "gpuq.policies.lists.packed:SPEC", registry.GROUP))
    monkeypatch.setattr(registry, "entry_points", lambda group: points)


def _lacking(scheduling: Scheduling) -> Policy:
    raise BadInput("`lacking` needs scipy.", fix="Run `pip install 'gpuq-daemon[train]'`.")


def _leaving(scheduling: Scheduling) -> Policy:
    sys.exit(9)


SOUND = PolicySpec("the first job only", lambda scheduling: first_only)
LACKING = PolicySpec("needs a library that is not installed", _lacking)
LEAVING = PolicySpec("exits when it is made", _leaving)


def test_guard_makes_the_policy_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, sound="SOUND")
    policy = guard(Scheduling(policy="sound"))
    assert (policy.chosen, policy.serving) == ("sound", "sound")
    assert started(one_pass(a_queue(), policy)) == [1]


def test_default_has_no_time_limit() -> None:
    policy = guard(Scheduling(policy_time_limit_s=0.0))
    assert started(one_pass(a_queue(), policy)) == [1, 2, 3]
    assert policy.fault is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing", "there is no policy `missing` (`gpuq policy list` names them)"),
        ("lacking", "`lacking` needs scipy (Run `pip install 'gpuq-daemon[train]'`)"),
        ("leaving", "it cannot be made: SystemExit: 9"),
        ("broken", "AttributeError"),
    ],
)
def test_policy_that_cannot_be_made_is_replaced_from_the_start(
    monkeypatch: pytest.MonkeyPatch, name: str, reason: str
) -> None:
    offer(monkeypatch, lacking="LACKING", leaving="LEAVING", broken="NOT_THERE")

    policy = guard(Scheduling(policy=name))

    assert policy.fault is not None
    assert reason in policy.fault.reason
    assert policy.fault.at is None
    assert (policy.chosen, policy.serving) == (name, "packed")
    assert started(one_pass(a_queue(), policy)) == [1, 2, 3]
