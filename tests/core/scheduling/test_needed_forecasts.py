"""Which questions the core asks: each names the way in which its device is shared."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from gpuq.core.scheduling.admit import DeviceSnapshot
from gpuq.core.scheduling.cache import PassCache
from gpuq.core.scheduling.candidates import Candidates
from gpuq.core.scheduling.decide import decide
from gpuq.core.scheduling.needed_forecasts import needed_forecasts
from gpuq.core.state.apply import apply
from gpuq.core.state.events import Submitted
from gpuq.core.state.forecast import Forecast, PairCost, Question
from gpuq.core.state.job import Job, KindId
from gpuq.policies.lists.packed import packed
from tests.support.nouns import a_device, a_forecast, a_job, a_report
from tests.support.playbook import Playbook


def test_questions_name_the_way_in_which_each_device_is_shared() -> None:
    play = Playbook().forecast("kind", a_forecast(10, 1))
    play.happen(a_report(a_device("gpu0", sharing="mps"), a_device("gpu1", sharing="time-slicing")))
    play.happen(*(Submitted(a_job(number)) for number in (1, 2))).settle()
    play.happen(Submitted(a_job(3)))

    alone = needed_forecasts(play.state, {}, PassCache(), play.limits, play.now)
    known = {question: a_forecast(10, 1) for question in alone}
    together = needed_forecasts(play.state, known, PassCache(), play.limits, play.now)

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
        while questions := needed_forecasts(play.state, answers, PassCache(), play.limits, play.now):
            answers.update({question: answer(question) for question in questions})
        for action in decide(play.state, answers, PassCache(), play.limits, packed, play.now):
            apply(play.state, action, play.now)
            play.done.append(action)

    play.happen(Submitted(a_job(1, kind="b")), Submitted(a_job(2, kind="b")))
    decide_so()
    play.happen(Submitted(a_job(3, kind="a")))
    decide_so()

    assert play.launched()[3] == "gpu1"


def test_only_classes_whose_answers_led_further_are_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 10,000 kinds the looks are most of a pass, so a kind that needs many rounds must not cost the others a look each."""
    play, devices = Playbook(), [a_device(f"gpu{number}") for number in range(6)]
    play.limits = replace(play.limits, candidates_per_job=2)
    play.happen(a_report(*devices))
    for number in range(6):
        play.forecast(f"resident{number}", a_forecast(10 + number, 1))
        play.happen(Submitted(a_job(number, kind=f"resident{number}")))
        pair = PairCost(KindId(f"resident{number}"), 1.0, 1.0, 1.0, 1.0, unsafe=True)
        play.forecast("refused", a_forecast(10, 1, pairs=(pair,)), beside=(f"resident{number}",))
    play.settle()
    waiting = ["refused", *(f"other{number}" for number in range(5))]
    for number, kind in enumerate(waiting):
        play.forecast(kind, a_forecast(10, 1))
        play.happen(Submitted(a_job(100 + number, kind=kind)))
    looks: Counter[str] = Counter()
    look = Candidates.without_forecast

    def counted(self: Candidates, job: Job) -> list[DeviceSnapshot]:
        looks[job.kind] += 1
        return look(self, job)

    monkeypatch.setattr(Candidates, "without_forecast", counted)
    play.collect()

    assert looks == {"refused": 4, **dict.fromkeys(waiting[1:], 2)}
    assert not needed_forecasts(play.state, play.known.table, play.cache, play.limits, play.now)
