"""What a policy proposes is judged: a device is given once in a pass, and what is wrong in itself starts nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from gpuq.core.scheduling.cache import PassCache
from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.scheduling.decide import decide
from gpuq.core.scheduling.policy import Proposal
from gpuq.core.state.actions import Launch
from gpuq.core.state.device import Device
from gpuq.core.state.events import Submitted
from gpuq.core.state.job import Job, JobId
from gpuq.core.state.verdict import Rule
from tests.support.nouns import a_device, a_forecast, a_job, a_report
from tests.support.playbook import Playbook


def test_at_most_one_admission_per_device_in_one_pass() -> None:
    play = Playbook().forecast("kind", a_forecast(10, 1))
    play.happen(a_report(a_device()), Submitted(a_job(1)), Submitted(a_job(2)))

    first, second = play.decide(), play.decide()

    assert [a.attempt.id.job for a in first if isinstance(a, Launch)] == [1]
    assert [a.attempt.id.job for a in second if isinstance(a, Launch)] == [2]


def test_a_policy_cannot_give_a_device_twice_in_one_pass() -> None:
    def stubborn(context: SchedulingContext) -> Iterator[Proposal]:
        for job in context.waiting:
            yield Proposal(job, tuple(snapshot.device for snapshot in context.snapshots))

    play = Playbook().forecast("kind", a_forecast(10, 1))
    play.happen(a_report(a_device()), Submitted(a_job(1)), Submitted(a_job(2)))

    actions = decide(play.state, play.known, PassCache(), play.limits, stubborn, play.now)

    assert len([a for a in actions if isinstance(a, Launch)]) == 1


def _across_hosts(job: Job, near: Device, far: Device) -> Proposal:
    return Proposal(job, (near, far))


def _one_twice(job: Job, near: Device, far: Device) -> Proposal:
    return Proposal(job, (near, near))


def _too_few(job: Job, near: Device, far: Device) -> Proposal:
    return Proposal(job, (near,))


def _none(job: Job, near: Device, far: Device) -> Proposal:
    return Proposal(job, ())


def _made_up_device(job: Job, near: Device, far: Device) -> Proposal:
    return Proposal(job, (near, a_device("nowhere")))


def _made_up_job(job: Job, near: Device, far: Device) -> Proposal:
    return Proposal(replace(job, id=JobId(99), device_count=1), (near,))


def _made_smaller(job: Job, near: Device, far: Device) -> Proposal:
    return Proposal(replace(job, device_count=1), (near,))


@pytest.mark.parametrize(
    "wrong", [_across_hosts, _one_twice, _too_few, _none, _made_up_device, _made_up_job, _made_smaller]
)
def test_an_invalid_proposal_starts_nothing_and_the_job_keeps_waiting(
    wrong: Callable[[Job, Device, Device], Proposal],
) -> None:
    near, far = a_device("near", host="here"), a_device("far", host="there")

    def policy(context: SchedulingContext) -> Iterator[Proposal]:
        for job in context.waiting:
            yield wrong(job, near, far)

    play = Playbook(policy=policy).happen(a_report(near, host="here"), a_report(far, host="there"))
    play.happen(
        a_report(near, a_device("near1", host="here"), host="here"), Submitted(a_job(1, device_count=2))
    ).settle()

    assert play.launched() == {}
    assert play.reason(1) is Rule.BEHIND, "the devices would take it"


def test_a_policy_that_wants_two_jobs_on_one_device_gets_one_of_them_in_this_pass() -> None:
    def both(context: SchedulingContext) -> Iterator[Proposal]:
        for job in context.waiting:
            yield Proposal(job, (next(context.snapshots).device,))

    play = Playbook(policy=both).forecast("kind", a_forecast(10, 1)).happen(a_report(a_device()))
    play.happen(Submitted(a_job(1)), Submitted(a_job(2)))

    assert len([a for a in play.decide() if isinstance(a, Launch)]) == 1


def test_a_job_may_be_given_more_devices_than_it_needs_up_to_its_most() -> None:
    def generous(context: SchedulingContext) -> Iterator[Proposal]:
        for job in context.waiting:
            yield Proposal(job, tuple(snapshot.device for snapshot in context.snapshots))

    play = Playbook(policy=generous).happen(a_report(a_device("a"), a_device("b"), a_device("c")))
    play.happen(Submitted(a_job(1, most_devices=2)), Submitted(a_job(2, most_devices=3))).decide()

    assert [len(a.attempt.devices) for a in play.done if isinstance(a, Launch)] == [3]
