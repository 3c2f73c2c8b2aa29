"""A policy out of parts tries the jobs in their order, and of those that are alike only the first that cannot start."""

from __future__ import annotations

from gpuq.core.scheduling.admit import DeviceSnapshot
from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.state.events import Submitted
from gpuq.core.state.job import Job
from gpuq.policies.lists.list_scheduler import in_order, listed
from gpuq.policies.lists.order import ARRIVAL, Order
from tests.support.nouns import a_device, a_forecast, a_job, a_report
from tests.support.playbook import Playbook


def test_of_jobs_that_are_alike_only_the_first_that_cannot_start_is_tried() -> None:
    tried: list[int] = []

    class Watching:
        """A gate that lets all pass, and notes which jobs were offered devices and which could not start."""

        def allows(self, job: Job, snapshots: tuple[DeviceSnapshot, ...]) -> bool:
            tried.append(int(job.id))
            return True

        def hold(self, job: Job) -> bool:
            tried.append(int(job.id))
            return True

    play = Playbook(policy=listed(ARRIVAL, backfill=lambda context: Watching()))
    play.forecast("kind", a_forecast(90, 4)).happen(a_report(a_device()))
    play.happen(Submitted(a_job(1))).settle()
    play.happen(*(Submitted(a_job(number)) for number in range(2, 50)))
    play.decide()

    assert tried == [1, 2]
    assert play.reason(49) is not None, "the others are told why they wait all the same"


def test_ranks_are_worked_out_for_heads_of_lines_only() -> None:
    ranked: list[int] = []

    def ranking(context: SchedulingContext):
        return lambda job: (ranked.append(int(job.id)), (job.submitted_at,))[1]

    play = Playbook(policy=listed(Order(ranking))).happen(a_report(a_device()))
    play.happen(*(Submitted(a_job(number, kind="ab"[number % 2])) for number in range(1, 50)))
    play.decide()

    assert len(ranked) < 5


def test_lines_that_do_not_stand_in_order_are_ranked_one_by_one() -> None:
    order = Order(lambda context: lambda job: (-job.submitted_at,), first_come=False)
    seen: list[int] = []

    def policy(context: SchedulingContext):
        seen.extend(int(job.id) for job in in_order(context, order))
        return iter(())

    Playbook(policy=policy).happen(*(Submitted(a_job(number, kind=f"k{number}")) for number in (1, 2, 3))).decide()

    assert seen == [3, 2, 1]
