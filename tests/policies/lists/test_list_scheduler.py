"""A list scheduler tries jobs in order, and of a scheduling class only the first that cannot start."""

from __future__ import annotations

from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.state.events import Submitted
from gpuq.policies.lists.list_scheduler import in_order, list_scheduler
from gpuq.policies.lists.order import ARRIVAL, QueueOrder
from tests.support.nouns import a_device, a_forecast, a_job, a_report
from tests.support.playbook import Playbook


def test_one_refused_job_per_scheduling_class_is_tried() -> None:
    tried: list[int] = []

    def watching(context: SchedulingContext):
        for proposal in list_scheduler(ARRIVAL)(context):
            tried.append(int(proposal.job.id))
            yield proposal

    play = Playbook(policy=watching).forecast("kind", a_forecast(90, 4)).happen(a_report(a_device()))
    play.happen(Submitted(a_job(1))).settle()
    play.happen(*(Submitted(a_job(number)) for number in range(2, 50)))
    play.decide()

    assert tried == [1, 2]
    assert play.reason(49) is not None, "jobs that were not tried have a reason too"


def test_first_come_order_ranks_only_the_heads_of_groups() -> None:
    ranked: list[int] = []

    def ranking(context: SchedulingContext):
        return lambda job: (ranked.append(int(job.id)), (job.submitted_at,))[1]

    play = Playbook(policy=list_scheduler(QueueOrder(ranking))).happen(a_report(a_device()))
    play.happen(*(Submitted(a_job(number, kind="ab"[number % 2])) for number in range(1, 50)))
    play.decide()

    assert len(ranked) < 5


def test_other_orders_rank_every_job() -> None:
    order = QueueOrder(lambda context: lambda job: (-job.submitted_at,), first_come=False)
    seen: list[int] = []

    def policy(context: SchedulingContext):
        seen.extend(int(job.id) for job in in_order(context, order))
        return iter(())

    Playbook(policy=policy).happen(*(Submitted(a_job(number, kind=f"k{number}")) for number in (1, 2, 3))).decide()

    assert seen == [3, 2, 1]
