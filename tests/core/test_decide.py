"""One pass after another: who runs where, who waits, and why. Each test is a small story."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from gpuq.core.actions import Hold, Launch
from gpuq.core.ask import ask
from gpuq.core.board import Board
from gpuq.core.decide import decide
from gpuq.core.device import Device
from gpuq.core.events import Submitted, Woke
from gpuq.core.forecast import Forecast, PairCost, Question
from gpuq.core.job import Job, JobId, KindId, Sharing
from gpuq.core.limits import Limits
from gpuq.core.policy import Proposal
from gpuq.core.state import apply
from gpuq.core.verdict import Rule
from gpuq.policies.packed import packed
from tests.support.nouns import GIB, a_device, a_forecast, a_job, a_reading, a_report, a_start, an_exit
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


def test_at_most_one_admission_per_device_in_one_pass() -> None:
    play = Playbook().forecast("kind", a_forecast(10, 1))
    play.happen(a_report(a_device()), Submitted(a_job(1)), Submitted(a_job(2)))

    first, second = play.decide(), play.decide()

    assert [a.attempt.id.job for a in first if isinstance(a, Launch)] == [1]
    assert [a.attempt.id.job for a in second if isinstance(a, Launch)] == [2]


def test_a_job_that_does_not_fit_now_does_not_hold_up_one_that_does() -> None:
    play = Playbook().forecast("light", a_forecast(20, 1)).forecast("heavy", a_forecast(98, 1))
    play.happen(a_report(a_device()), Submitted(a_job(1, kind="light"))).settle()
    play.happen(Submitted(a_job(2, kind="heavy")), Submitted(a_job(3, kind="light"))).settle()

    assert play.launched() == {1: "gpu0", 3: "gpu0"}
    assert play.reason(2) is Rule.RESOURCES


def test_a_policy_cannot_give_a_device_twice_in_one_pass() -> None:
    def stubborn(board: Board) -> Iterator[Proposal]:
        for job in board.waiting:
            yield Proposal(job, tuple(place.device for place in board.places))

    play = Playbook().forecast("kind", a_forecast(10, 1))
    play.happen(a_report(a_device()), Submitted(a_job(1)), Submitted(a_job(2)))

    actions = decide(play.state, {}, play.limits, stubborn, play.now, cause=1)

    assert len([a for a in actions if isinstance(a, Launch)]) == 1


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


def test_questions_name_the_way_in_which_each_device_is_shared() -> None:
    play = Playbook().forecast("kind", a_forecast(10, 1))
    play.happen(a_report(a_device("gpu0", sharing="mps"), a_device("gpu1", sharing="time-slicing")))
    play.happen(*(Submitted(a_job(number)) for number in (1, 2))).settle()
    play.happen(Submitted(a_job(3)))

    alone = ask(play.state, {}, play.limits, play.now)
    together = ask(play.state, {question: a_forecast(10, 1) for question in alone}, play.limits, play.now)

    assert {(question.sharing, question.beside) for question in alone} == {("mps", ()), ("time-slicing", ())}
    assert {question.sharing: question.beside for question in together} == {"mps": ("kind",), "time-slicing": ("kind",)}


def test_pairs_known_under_one_way_of_sharing_open_no_device_shared_in_another() -> None:
    """Beyond the limit on load only where the pair's slowdowns are known: here under MPS."""
    pair = PairCost(KindId("b"), 1.05, 1.2, 1.05, 1.2)
    play = Playbook().happen(a_report(a_device("gpu0", sharing="time-slicing"), a_device("gpu1", sharing="mps")))
    known = {"mps": (pair,), "time-slicing": ()}

    def answer(question: Question) -> Forecast:
        pairs = known[question.sharing or ""]
        return a_forecast(70, 1, pairs=pairs if question.beside else (), pairs_known=bool(pairs))

    def decide_so() -> None:
        answers: dict[Question, Forecast] = {}
        while questions := ask(play.state, answers, play.limits, play.now):
            answers.update({question: answer(question) for question in questions})
        for action in decide(play.state, answers, play.limits, packed, play.now, cause=1):
            apply(play.state, action, play.now)
            play.done.append(action)

    play.happen(Submitted(a_job(1, kind="b")), Submitted(a_job(2, kind="b")))
    decide_so()
    play.happen(Submitted(a_job(3, kind="a")))
    decide_so()

    assert play.launched()[3] == "gpu1"


def test_jobs_that_must_be_alone_are() -> None:
    play = Playbook().forecast("kind", a_forecast(10, 1))
    play.happen(a_report(a_device()), Submitted(a_job(1, sharing=Sharing.NEVER)), Submitted(a_job(2))).settle()

    assert play.launched() == {1: "gpu0"}
    assert play.reason(2) is Rule.EXCLUSIVE


def test_with_no_device_everybody_waits_and_is_told_so() -> None:
    play = Playbook().happen(Submitted(a_job(1))).settle()

    assert play.reason(1) is Rule.NO_DEVICES


def test_a_stale_device_admits_nobody() -> None:
    play = Playbook().happen(a_report(a_device())).happen(Woke(), after=60).happen(Submitted(a_job(1))).settle()

    assert play.reason(1) is Rule.STALE_READING


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


def test_a_reason_is_said_once_not_every_second() -> None:
    play = Playbook().happen(a_report(a_device()), Submitted(a_job(1)), Submitted(a_job(2))).settle()
    said = len([a for a in play.done if isinstance(a, Hold)])

    play.happen(a_report(a_device())).settle()

    assert len([a for a in play.done if isinstance(a, Hold)]) == said


def test_a_small_device_is_passed_over_for_one_that_fits() -> None:
    devices = [a_device(f"small{n}", gib=8) for n in range(20)] + [a_device("zlarge", gib=80)]
    play = Playbook().happen(a_report(*devices), Submitted(a_job(1, declared_memory=60 * GIB))).settle()

    assert play.launched() == {1: "zlarge"}


def test_a_job_that_no_device_could_ever_hold_is_told_so_with_the_missing_number() -> None:
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


def test_a_job_on_two_devices_is_foretold_beside_the_partner_on_one_of_them() -> None:
    play = Playbook().forecast("gang", a_forecast(30, 2)).forecast("small", a_forecast(30, 2))
    beside = a_forecast(30, 2, expected_slowdown=1.05)
    play.forecast("gang", beside, beside=("small",))
    play.happen(a_report(a_device("gpu0"), a_device("gpu1")), Submitted(a_job(1, kind="small"))).settle()
    play.happen(Submitted(a_job(2, kind="gang", device_count=2))).settle()

    (launch,) = [a for a in play.done if isinstance(a, Launch) and a.attempt.id.job == 2]
    assert set(launch.attempt.devices) == {"gpu0", "gpu1"}
    assert launch.attempt.forecast.expected_slowdown == 1.05
    assert launch.verdict.rule is Rule.FITS, "of the device with the partner, not of the idle one"


def test_a_job_on_two_devices_says_how_many_it_waits_for() -> None:
    play = Playbook().happen(a_report(a_device("gpu0"), a_device("gpu1")), Submitted(a_job(1))).settle()
    play.happen(Submitted(a_job(2, device_count=2, kind="gang"))).settle()
    verdict = play.verdict(2)
    assert verdict is not None
    assert dict(verdict.numbers) == {"wanted_devices": 2, "devices": 2, "busy_devices": 1}


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
def test_a_proposal_that_is_wrong_in_itself_starts_nothing_and_hurts_nobody(
    wrong: Callable[[Job, Device, Device], Proposal],
) -> None:
    near, far = a_device("near", host="here"), a_device("far", host="there")

    def policy(board: Board) -> Iterator[Proposal]:
        for job in board.waiting:
            yield wrong(job, near, far)

    play = Playbook(policy=policy).happen(a_report(near, host="here"), a_report(far, host="there"))
    play.happen(
        a_report(near, a_device("near1", host="here"), host="here"), Submitted(a_job(1, device_count=2))
    ).settle()

    assert play.launched() == {}
    assert play.reason(1) is Rule.RESOURCES


def test_a_policy_that_wants_two_jobs_on_one_device_gets_one_of_them_in_this_pass() -> None:
    def both(board: Board) -> Iterator[Proposal]:
        for job in board.waiting:
            yield Proposal(job, (next(board.places).device,))

    play = Playbook(policy=both).forecast("kind", a_forecast(10, 1)).happen(a_report(a_device()))
    play.happen(Submitted(a_job(1)), Submitted(a_job(2)))

    assert len([a for a in play.decide() if isinstance(a, Launch)]) == 1


def test_a_job_may_be_given_more_devices_than_it_needs_up_to_its_most() -> None:
    def generous(board: Board) -> Iterator[Proposal]:
        for job in board.waiting:
            yield Proposal(job, tuple(place.device for place in board.places))

    play = Playbook(policy=generous).happen(a_report(a_device("a"), a_device("b"), a_device("c")))
    play.happen(Submitted(a_job(1, most_devices=2)), Submitted(a_job(2, most_devices=3))).decide()

    assert [len(a.attempt.devices) for a in play.done if isinstance(a, Launch)] == [3]


def test_waiting_jobs_are_grouped_by_what_they_wish_their_priority_and_owner_and_stand_in_order_of_submission() -> None:
    play = Playbook().happen(*(Submitted(a_job(n, submitted_at=float(10 - n))) for n in (1, 2, 3)))
    play.happen(Submitted(a_job(4, priority=1)), Submitted(a_job(5, owner="bob")), Submitted(a_job(6, kind="other")))

    groups = Board(play.state, {}, play.limits, play.now).groups

    assert sorted([job.id for job in group.jobs] for group in groups) == [[3, 2, 1], [4], [5], [6]]


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


def test_a_refusal_is_remembered_until_the_device_changes() -> None:
    play = Playbook().forecast("kind", a_forecast(80, 4)).happen(a_report(a_device()), Submitted(a_job(1))).settle()
    play.happen(Submitted(a_job(2))).settle()
    board = Board(play.state, play.known, play.limits, play.now)
    assert board.refused(play.state.jobs[JobId(2)])

    play.happen(a_start(1), an_exit(1))
    board = Board(play.state, play.known, play.limits, play.now)
    assert not board.refused(play.state.jobs[JobId(2)])
    assert [place.device.id for (place,) in board.choices(play.state.jobs[JobId(2)])] == ["gpu0"]
