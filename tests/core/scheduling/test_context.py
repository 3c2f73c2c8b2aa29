"""What a pass sees: waiting jobs in groups, and the devices that have refused them."""

from __future__ import annotations

from gpuq.core.state.events import Submitted
from gpuq.core.state.job import JobId
from tests.support.nouns import a_device, a_forecast, a_job, a_report, a_start, an_exit
from tests.support.playbook import Playbook


def test_waiting_jobs_are_grouped_by_what_they_wish_their_priority_and_owner_and_stand_in_order_of_submission() -> None:
    play = Playbook().happen(*(Submitted(a_job(n, submitted_at=float(10 - n))) for n in (1, 2, 3)))
    play.happen(Submitted(a_job(4, priority=1)), Submitted(a_job(5, owner="bob")), Submitted(a_job(6, kind="other")))

    groups = play.context().groups

    assert sorted([job.id for job in group.jobs] for group in groups) == [[3, 2, 1], [4], [5], [6]]


def test_a_refusal_is_remembered_until_the_device_changes() -> None:
    play = Playbook().forecast("kind", a_forecast(80, 4)).happen(a_report(a_device()), Submitted(a_job(1))).settle()
    play.happen(Submitted(a_job(2))).settle()
    context = play.context()
    assert context.refused(play.state.jobs[JobId(2)])

    play.happen(a_start(1), an_exit(1))
    context = play.context()
    assert not context.refused(play.state.jobs[JobId(2)])
    assert [snapshot.device.id for (snapshot,) in context.choices(play.state.jobs[JobId(2)])] == ["gpu0"]
