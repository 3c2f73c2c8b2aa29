"""Which questions the core asks, and when: each names the way in which its device is shared."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gpuq.core.scheduling.cache import PassCache
from gpuq.core.scheduling.decide import decide
from gpuq.core.scheduling.forecast_table import ForecastTable
from gpuq.core.state.apply import apply
from gpuq.core.state.events import CancelRequested, Submitted
from gpuq.core.state.forecast import BUDGETS, RULE, Forecast, PairCost, Question
from gpuq.core.state.job import JobId, KindId
from gpuq.core.state.verdict import Rule
from gpuq.policies.lists.packed import packed
from tests.support.nouns import a_device, a_forecast, a_job, a_report
from tests.support.playbook import Playbook


class Recording(ForecastTable):
    """Remembers which questions were asked together."""

    def __init__(self, answer: Callable[[Question], Forecast]) -> None:
        self.asked: list[list[Question]] = []

        def answer_all(questions: Iterable[Question]) -> dict[Question, Forecast]:
            self.asked.append(list(questions))
            return {question: answer(question) for question in self.asked[-1]}

        super().__init__(answer_all)


def decide_by(play: Playbook, answer: Callable[[Question], Forecast]) -> Recording:
    """One pass with these forecasts and a new cache; its actions are applied."""
    forecasts = Recording(answer)
    for action in decide(play.state, forecasts, PassCache(), play.limits, packed, play.now):
        apply(play.state, action, play.now)
        play.done.append(action)
    return forecasts


def full(count: int) -> Playbook:
    """So many devices, each with a resident of another kind."""
    play = Playbook().happen(a_report(*(a_device(f"gpu{number:02}") for number in range(count))))
    for number in range(count):
        play.forecast(f"resident{number:02}", a_forecast(10 + number, 1))
        play.happen(Submitted(a_job(number + 1, kind=f"resident{number:02}")))
    return play.settle()


def test_questions_name_the_way_in_which_each_device_is_shared() -> None:
    play = Playbook().forecast("kind", a_forecast(10, 1))
    play.happen(a_report(a_device("gpu0", sharing="mps"), a_device("gpu1", sharing="time-slicing")))
    play.happen(*(Submitted(a_job(number)) for number in (1, 2))).settle()
    play.happen(Submitted(a_job(3)))

    alone, together = decide_by(play, lambda _: a_forecast(10, 1)).asked

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

    play.happen(Submitted(a_job(1, kind="b")), Submitted(a_job(2, kind="b")))
    decide_by(play, answer)
    play.happen(Submitted(a_job(3, kind="a")))
    decide_by(play, answer)

    assert play.launched()[3] == "gpu1"


def test_a_job_is_judged_by_the_pair_where_the_devices_it_would_have_had_were_given_in_the_same_pass() -> None:
    """Eight jobs take the eight devices that are used least; the ninth may share with none of the others."""
    play = full(10)
    risk = (0.5,) * len(BUDGETS)

    def answer(question: Question) -> Forecast:
        costs = (PairCost(beside, 1.0, 1.0, 1.0, 1.0, evidence=RULE) for beside in question.beside)
        risky = (PairCost(beside, 1.0, 1.0, 1.0, 1.0, evidence=RULE, risks=(risk, risk)) for beside in question.beside)
        return a_forecast(10, 1, pairs=tuple(risky if question.kind == "risky" else costs))

    play.happen(
        *(Submitted(a_job(number, kind="safe")) for number in range(20, 28)), Submitted(a_job(30, kind="risky"))
    )
    decide_by(play, answer)

    assert len([job for job in play.launched() if job >= 20]) == 8
    assert 30 not in play.launched()
    assert play.reason(30) is Rule.SLOWDOWN_RISK


def test_no_pair_is_asked_about_that_the_load_refuses() -> None:
    play = full(3)
    play.happen(Submitted(a_job(20, kind="heavy")))

    alone, *pairs = decide_by(play, lambda _: a_forecast(114, 1)).asked

    assert {question.kind for question in alone} == {"heavy"}
    assert not pairs
    assert play.reason(20) is Rule.PREDICTED_LOAD


def test_the_pairs_of_a_job_are_asked_about_together_as_far_as_they_are_needed() -> None:
    """Eight candidates are wanted, so eight are asked about at once, and eight more as those refuse."""
    play = full(20)
    play.happen(Submitted(a_job(30, kind="new")))

    def answer(question: Question) -> Forecast:
        unsafe = question.beside <= ("resident04",)
        pairs = tuple(PairCost(beside, 1.0, 1.0, 1.0, 1.0, unsafe=unsafe) for beside in question.beside)
        return a_forecast(10, 1, pairs=pairs)

    _, *pairs = decide_by(play, answer).asked

    assert [len(asked) for asked in pairs] == [8, 8]
    assert [question.beside for question in pairs[1]] == [(f"resident{number:02}",) for number in range(8, 16)]
    assert 30 in play.launched()


def test_nothing_is_asked_twice_until_something_was_learned() -> None:
    play, cache = full(2), PassCache()
    play.happen(Submitted(a_job(20, kind="heavy")))
    forecasts = Recording(lambda _: a_forecast(114, 1))

    def asked_in_a_pass() -> int:
        forecasts.asked.clear()
        decide(play.state, forecasts, cache, play.limits, packed, play.now)
        return len(forecasts.asked)

    assert [asked_in_a_pass(), asked_in_a_pass()] == [1, 0]
    forecasts.forget()
    assert [asked_in_a_pass(), asked_in_a_pass()] == [1, 0]


def test_forecasts_for_jobs_that_are_gone_are_dropped_in_the_end() -> None:
    play = full(1)
    for number in range(100, 1700):
        play.forecasts[f"kind{number}"] = a_forecast(114, 1)
        apply(play.state, Submitted(a_job(number, kind=f"kind{number}")), play.now)
    play.context()
    assert len(play.known.known) >= 1600
    for number in range(101, 1700):
        apply(play.state, CancelRequested(JobId(number), "ada"), play.now)
    play.context()
    assert {question.kind for question in play.known.known} == {"kind100"}
