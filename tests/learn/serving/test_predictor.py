"""Forecasts from own history, from similar kinds, or unknown."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from gpuq.core.state.events import ResidentNumbers
from gpuq.core.state.forecast import Forecast, Question
from gpuq.core.state.job import KindId
from gpuq.learn.features.kind import describe
from gpuq.learn.history.history import History
from gpuq.learn.history.outcome import OngoingAttempt, Outcome
from gpuq.learn.serving.model import Model
from gpuq.learn.serving.predictor import ForecastSupport, Predictor
from gpuq.learn.training.train import fit
from gpuq.messages.submission import Hints, Setting, Submission
from gpuq.settings import Learning
from tests.learn.world import DEVICE, GIB, Work, run

RESNET = Work("resnet50", 64, 60.0, 6 * GIB)
BERT = Work("bert", 8, 40.0, 4 * GIB)


def predictor(*outcomes: Outcome, model: Model | None = None) -> Predictor:
    return Predictor(History.from_outcomes(outcomes), model, Learning())


def forecast(of: Predictor, work: Work, *beside: str, device_type: str = DEVICE) -> Forecast:
    kind, signature, features = work.described()
    of.register(signature, features, kind)
    question = Question(signature, KindId(kind), device_type, tuple(KindId(name) for name in beside))
    return of.answer([question])[question]


def runs(work: Work, count: int, seed: int = 1, **changes: Any) -> list[Outcome]:
    chance = random.Random(seed)
    return [run(work, number, chance, **changes) for number in range(count)]


def test_forecast_without_evidence_is_unknown():
    answer = forecast(predictor(), RESNET, "other")
    assert not answer.known
    assert answer.evidence == "none"
    assert (answer.peak_memory_bytes, answer.expected_slowdown, answer.upper_slowdown) == (None, None, None)
    assert [(cost.newcomer, cost.resident, cost.unsafe) for cost in answer.pairs] == [(None, None, False)]


def test_one_run_gives_a_forecast_at_once():
    of = predictor()
    assert not forecast(of, RESNET).known
    (first,) = runs(RESNET, 1)
    of.learn(first)
    answer = forecast(of, RESNET)
    assert answer.evidence == "own history, 1 run"
    assert answer.peak_memory_bytes == first.peak_memory_bytes
    assert answer.peak_utilization_pct == first.peak_utilization_pct
    assert answer.duration_p50_s == first.duration_s
    assert 1.05 < (answer.duration_p90_s or 0) / (first.duration_s or 1) < 1.3, (
        "one run does not show how much runs differ"
    )
    assert answer.upper_memory_bytes is not None
    assert 1.1 < answer.upper_memory_bytes / (first.peak_memory_bytes or 1) < 1.25


def test_a_job_that_uses_no_device_may_share_one_from_its_second_run_on():
    idle = replace(RESNET, utilization_pct=0.0, memory_bytes=600 * 2**20)
    answer = forecast(predictor(*runs(idle, 3, peak_utilization_pct=0.0)), idle)
    assert (answer.known, answer.peak_utilization_pct) == (True, 0.0)
    assert 600 * 2**20 < (answer.upper_memory_bytes or 0) < 2**30


def test_more_runs_narrow_the_bound():
    few, many = (forecast(predictor(*runs(RESNET, n)), RESNET) for n in (1, 30))
    assert many.evidence == "own history, 30 runs"
    assert abs((many.upper_memory_bytes or 0) - 6 * GIB) < abs((few.upper_memory_bytes or 0) - 6 * GIB)


def test_one_of_many_runs_that_needed_far_more_is_covered():
    most = runs(RESNET, 60)
    (large,) = runs(RESNET, 1, peak_memory_bytes=30 * GIB, attempt=(99, 1))
    assert 30 * GIB < (forecast(predictor(*most, large), RESNET).upper_memory_bytes or 0) < 37 * GIB


def test_a_changed_script_widens_the_bound():
    of = predictor(*runs(RESNET, 30))
    same, changed = forecast(of, RESNET), forecast(of, replace(RESNET, script_sha256="b" * 64))
    assert (changed.upper_memory_bytes or 0) > 1.1 * (same.upper_memory_bytes or 0)
    assert changed.evidence == "own history, 30 runs of an earlier script"
    of.learn(run(replace(RESNET, script_sha256="b" * 64), 99, random.Random(1)))
    assert forecast(of, replace(RESNET, script_sha256="b" * 64)).evidence == "own history, 1 run"


def test_another_type_of_device_is_no_evidence():
    assert not forecast(predictor(*runs(RESNET, 5)), RESNET, device_type="Other GPU").known


def test_predicted_power_is_the_median_of_runs_or_unknown():
    assert forecast(predictor(*runs(RESNET, 3)), RESNET).power_w is None
    drew = [
        runs(RESNET, 1, attempt=(number, 1), power_w=watts)[0] for number, watts in enumerate((300.0, 90.0, 310.0), 10)
    ]
    assert forecast(predictor(*runs(RESNET, 2), *drew), RESNET).power_w == 300.0
    assert forecast(predictor(*drew), RESNET, device_type="Other GPU").power_w is None


def test_shared_runs_only_raise_the_utilization_of_runs_alone():
    held_down = runs(RESNET, 5, shared=True, peak_utilization_pct=30.0, attempt=None)
    assert forecast(predictor(*runs(RESNET, 3), *held_down), RESNET).peak_utilization_pct == pytest.approx(60, rel=0.1)
    higher = runs(RESNET, 5, shared=True, peak_utilization_pct=80.0, attempt=None)
    assert forecast(predictor(*runs(RESNET, 3), *higher), RESNET).peak_utilization_pct == 80


def test_kind_measured_only_beside_foreign_load_uses_its_utilisation_bound():
    (spoiled,) = runs(RESNET, 1, peak_utilization_pct=None, utilization_at_most=80.0, disturbed=True, alone_rate=None)
    of = predictor(spoiled)
    answer = forecast(of, RESNET)
    assert answer.known
    assert answer.peak_utilization_pct == 80.0
    assert answer.evidence == "own history, 1 run; utilisation at most, it only ran beside foreign load"
    (clean,) = runs(RESNET, 1, seed=2, peak_utilization_pct=60.0)
    of.learn(replace(clean, attempt=(7, 1)))
    answer = forecast(of, RESNET)
    assert (answer.peak_utilization_pct, answer.evidence) == (60.0, "own history, 1 run")


def test_durations_beside_foreign_load_count_only_without_others():
    slow = runs(RESNET, 3, disturbed=True, duration_s=100.0)
    of = predictor(*slow)
    assert forecast(of, RESNET).duration_p50_s == 100.0
    of.learn(replace(runs(RESNET, 1, duration_s=60.0)[0], attempt=(9, 1)))
    assert forecast(of, RESNET).duration_p50_s == 60.0


def test_an_unfinished_run_is_only_a_lower_bound():
    (partial,) = runs(RESNET, 1, whole=False, peak_memory_bytes=9 * GIB)
    assert not forecast(predictor(partial), RESNET).known
    answer = forecast(predictor(partial, *runs(RESNET, 5, attempt=None)), RESNET)
    assert (answer.peak_memory_bytes or 0) >= 9 * GIB
    assert (answer.upper_memory_bytes or 0) > 9.5 * GIB


def test_duplicate_message_counts_once():
    of = predictor()
    (first,) = runs(RESNET, 1)
    of.learn(first)
    of.learn(first)
    assert forecast(of, RESNET).evidence == "own history, 1 run"


def test_measured_pair_is_known_in_both_directions():
    mine, other = RESNET.described()[0], "bert"
    beside_bert = ((other, 1.08, 1.06, 1.10),)
    of = predictor(*runs(RESNET, 1, shared=True, partner_kinds=(other,), slowdowns=beside_bert))
    answer = forecast(of, RESNET, other)
    assert answer.expected_slowdown == 1.08
    assert 1.10 <= (answer.upper_slowdown or 0) < 1.15
    (cost,) = answer.pairs
    assert (cost.newcomer, cost.resident) == (1.08, None)
    question = Question("s", KindId(other), DEVICE, (KindId(mine),))
    (back,) = of.answer([question])[question].pairs
    assert (back.newcomer, back.resident) == (None, 1.08)


def test_slowdowns_of_two_partners_multiply_and_unknown_stays_unknown():
    first, second = (
        runs(RESNET, 1, shared=True, partner_kinds=(name,), slowdowns=((name, 1.1, 1.1, 1.1),), attempt=None)[0]
        for name in "ab"
    )
    of = predictor(first, second)
    assert forecast(of, RESNET, "a", "b").expected_slowdown == pytest.approx(1.21)
    assert forecast(of, RESNET, "a", "c").expected_slowdown is None


@pytest.mark.parametrize(("slowdown", "budget", "raised"), [(1.3, None, True), (1.3, 1.5, False), (1.1, None, False)])
def test_only_first_meetings_beyond_the_jobs_budget_raise_the_risk_of_other_pairs(slowdown, budget, raised):
    met = {"shared": True, "partner_kinds": ("a",), "slowdowns": (("a", slowdown, None, None),), "max_slowdown": budget}
    of = predictor(*runs(RESNET, 1), *runs(BERT, 1))
    before, kind = forecast(of, RESNET, BERT.described()[0]).pairs[0].risks, RESNET.described()[0]
    of.learn(runs(RESNET, 1, kind=kind, attempt=(90, 1), **met)[0])
    after = forecast(of, RESNET, BERT.described()[0]).pairs[0].risks
    of.learn(runs(RESNET, 1, kind=kind, attempt=(91, 1), **met)[0])

    assert (after > before) is raised
    assert forecast(of, RESNET, BERT.described()[0]).pairs[0].risks == after, "that pair is known by now"


@pytest.mark.parametrize(("slowdown", "low", "stopped"), [(1.2, None, False), (1.4, None, True), (1.2, 1.16, True)])
def test_first_meetings_stop_new_sharing_only_where_they_exceed_by_more_than_the_error(slowdown, low, stopped):
    of = predictor(*runs(RESNET, 1), *runs(BERT, 1))
    before = forecast(of, RESNET, BERT.described()[0]).pairs[0].risks
    for place in range(10):
        met = {"shared": True, "partner_kinds": ("a",), "slowdowns": (("a", slowdown, low, None),)}
        of.learn(runs(RESNET, 1, kind=f"kind {place}", attempt=(90 + place, 1), **met)[0])
    after = forecast(of, RESNET, BERT.described()[0]).pairs[0].risks

    assert (min(after[0]) > 8 * min(before[0])) is stopped


def test_running_out_of_memory_together_marks_the_pair():
    failed = runs(RESNET, 1, shared=True, partner_kinds=("bert",), ending="out of memory", whole=False)
    of = predictor(*failed)
    assert [cost.unsafe for cost in forecast(of, RESNET, "bert", "gan").pairs] == [True, False]
    question = Question("s", KindId("bert"), DEVICE, (KindId(RESNET.described()[0]),))
    assert of.answer([question])[question].pairs[0].unsafe


@pytest.mark.parametrize(
    ("ending", "device_type", "cause", "unsafe"),
    [
        ("out of memory", DEVICE, "own growth", True),
        ("out of memory", DEVICE, "a foreign process", False),
        ("host out of memory", DEVICE, None, False),
        ("host out of memory", "cpu-2", None, True),
        ("device failed", DEVICE, None, False),
    ],
)
def test_only_device_memory_marks_a_pair_unsafe(ending, device_type, cause, unsafe):
    """The host's is not the GPU's, though it is that of CPU cores; and a foreign process is no partner."""
    failed = runs(
        RESNET, 1, shared=True, partner_kinds=("bert",), ending=ending, device_type=device_type, memory_cause=cause
    )
    of = predictor(*failed)
    question = Question("s", KindId("bert"), device_type, (KindId(RESNET.described()[0]),))
    assert of.answer([question])[question].pairs[0].unsafe is unsafe


def test_measured_pair_replaces_the_earlier_answer():
    of = predictor(*runs(RESNET, 1))
    assert forecast(of, RESNET, "bert").expected_slowdown is None
    of.learn(
        runs(RESNET, 1, shared=True, partner_kinds=("bert",), slowdowns=(("bert", 1.2, 1.1, 1.3),), attempt=(9, 1))[0]
    )
    assert forecast(of, RESNET, "bert").expected_slowdown == 1.2


@cache
def trained() -> tuple[list[Outcome], Model]:
    small = [Work(f"mobilenet{i}", 32, 20.0 + i, 1 * GIB) for i in range(4)]
    large = [Work(f"bert{i}", 32, 90.0 + i, 12 * GIB) for i in range(4)]
    chance = random.Random(5)
    outcomes = [run(work, 10 * n + i, chance) for n in range(3) for i, work in enumerate([*small, *large])]
    return outcomes, fit(outcomes, Learning())


def of_other_owners(outcomes: list[Outcome]) -> list[Outcome]:
    """The same attempts by another owner, so that only the cluster of their kinds is evidence."""
    moved = {"owner:alice": "owner:bob"}
    return [
        replace(
            outcome,
            features={**outcome.features, "tokens": [moved.get(word, word) for word in outcome.features["tokens"]]},
        )
        for outcome in outcomes
    ]


def test_new_kind_of_a_new_owner_is_predicted_by_its_cluster():
    outcomes = of_other_owners(trained()[0])
    of = predictor(*outcomes, model=fit(outcomes, Learning()))
    light, heavy = (forecast(of, Work(f"{name}9", 32, 22.0, GIB)) for name in ("mobilenet", "bert"))
    assert light.evidence.startswith("cluster of 4 kinds, nearest alice:")
    assert light.evidence.endswith(", regressed in log batch")
    assert light.known
    assert (light.peak_memory_bytes or 0) < 3 * GIB
    assert (heavy.peak_memory_bytes or 0) > 6 * GIB


def test_new_kind_is_predicted_by_its_template():
    outcomes, model = trained()
    of = predictor(*outcomes, model=model)
    small, large = Work("mobilenet9", 32, 22.0, GIB), Work("bert9", 32, 92.0, 12 * GIB)
    light, heavy = forecast(of, small), forecast(of, large)
    assert light.known
    assert light.evidence == "script template, 24 runs of 8 kinds"
    assert (light.upper_memory_bytes or 0) < 3 * GIB
    assert (heavy.upper_memory_bytes or 0) > 12 * GIB
    assert (light.peak_utilization_pct or 0) < 40 < (heavy.peak_utilization_pct or 0)
    for outcome in runs(small, 3, attempt=None):
        of.learn(outcome)
    assert forecast(of, small).evidence == "own history, 3 runs"
    truth = small.memory_bytes
    assert abs((forecast(of, small).upper_memory_bytes or 0) - truth) < abs((light.upper_memory_bytes or 0) - truth)


def test_new_kind_is_matched_by_the_model_of_its_script():
    """The command is the same for all; only the script says which model it is and at which batch size."""
    outcomes, model = trained()
    of = predictor(*outcomes, model=model)

    def expected(constructor: str | None) -> int:
        batch = {"batch": Setting(value="32", origin="default")}
        hints = None if constructor is None else Hints(constructors=(constructor,), settings=batch)
        submitted = Submission(command=("python", "train.py"), cwd="/home/alice/vision", script="train.py", hints=hints)
        kind, _, features = describe(submitted, "alice")
        return of.forecast_for(kind, features, DEVICE).peak_memory_bytes or 0

    assert 0 < expected("timm:mobilenet2") < 3 * GIB
    assert expected("AutoModel.from_pretrained:bert2") > 6 * GIB


def test_support_lists_runs_and_nearest_kinds():
    outcomes, model = trained()
    of = predictor(*outcomes, model=model)
    kind, _, features = Work("mobilenet1", 32, 21.0, GIB).described()
    support = of.support(kind, features, DEVICE)
    assert support.runs == 3
    assert len(support.nearest) == 3
    assert all(
        "mobilenet" in other and other != kind and 0.4 <= similarity <= 1 for other, similarity in support.nearest
    )
    assert of.support("k", {}, DEVICE) == of.support("k", features, "another type") == ForecastSupport(0, ())


def test_a_kind_unlike_all_others_is_no_evidence():
    outcomes, model = trained()
    of = predictor(*outcomes, model=model)
    answer = of.forecast_for("k", {"tokens": ["script:fluids", "option:viscosity"], "batch_log2": None}, DEVICE)
    assert not answer.known
    assert not of.forecast_for("k", {"tokens": "odd", "batch_log2": "x"}, DEVICE).known


def test_a_forecast_names_its_model():
    outcomes, model = trained()
    of = predictor(*outcomes)
    assert forecast(of, RESNET).model_version is None
    of.use(Model(**{**{f: getattr(model, f) for f in model.__struct_fields__}, "version": "v0007"}))
    assert forecast(of, RESNET).model_version == "v0007"
    of.use(None)
    assert forecast(of, RESNET).model_version is None


amounts = st.one_of(st.none(), st.integers(0, 2**40))
shares = st.one_of(st.none(), st.floats(0, 100))


@st.composite
def histories(draw: st.DrawFn) -> list[Outcome]:
    chance = random.Random(draw(st.integers(0, 9)))
    return [
        run(
            replace(RESNET, script_sha256=draw(st.sampled_from([None, "a" * 64, "b" * 64]))),
            number,
            chance,
            peak_memory_bytes=draw(amounts),
            peak_utilization_pct=draw(shares),
            duration_s=draw(st.one_of(st.none(), st.floats(0.01, 1e6))),
            whole=draw(st.booleans()),
            shared=draw(st.booleans()),
        )
        for number in range(draw(st.integers(0, 22)))
    ]


@hypothesis_settings(deadline=None, max_examples=40)
@given(histories(), st.booleans())
def test_bounds_are_ordered_and_more_history_keeps_answers(outcomes: list[Outcome], with_model: bool):
    earlier, model = trained()
    of = predictor(*earlier, model=model if with_model else None)
    known = forecast(of, RESNET).known
    for outcome in outcomes:
        of.learn(outcome)
        answer = forecast(of, RESNET)
        assert answer.known or not known
        known = answer.known
        if answer.peak_memory_bytes is not None:
            assert (answer.upper_memory_bytes or 0) >= answer.peak_memory_bytes >= 0
        if answer.duration_p50_s is not None:
            assert (answer.duration_p90_s or 0) >= answer.duration_p50_s > 0
        if answer.peak_utilization_pct is not None:
            assert 0 <= answer.peak_utilization_pct <= 100


def test_partial_runs_do_not_displace_complete_ones():
    memory_only = runs(RESNET, 1, peak_utilization_pct=None, attempt=(900, 1))
    utilization_only = runs(RESNET, 1, peak_memory_bytes=None, attempt=(901, 1))
    unfinished = runs(RESNET, 100, whole=False, peak_memory_bytes=None)
    of = predictor(*memory_only, *utilization_only, *unfinished)
    assert forecast(of, RESNET).known


@hypothesis_settings(deadline=None, max_examples=30)
@given(histories())
def test_the_same_history_gives_the_same_forecast(outcomes: list[Outcome]):
    assert forecast(predictor(*outcomes), RESNET) == forecast(predictor(*outcomes), RESNET)


def test_thousands_of_questions_are_answered_and_cached():
    chance = random.Random(3)
    works = [Work(f"net{chance.randrange(10**6)}", 2 ** (i % 8), 50.0, GIB) for i in range(120)]
    outcomes = [run(work, 120 * n + i, chance) for n in range(4) for i, work in enumerate(works)]
    of = predictor(*outcomes, model=fit(outcomes, Learning()))
    questions = []
    for i in range(3000):
        if i % 2:
            known = outcomes[i % 120]
            kind, features = known.kind, {**known.features, "script_sha256": f"{i:064x}"}
            signature = f"{kind}#{i}"
        else:
            kind, signature, features = Work(f"new{i}", 2 ** (i % 8), 1.0, 1).described()
        of.register(signature, features, kind)
        questions.append(Question(signature, KindId(kind), DEVICE))
    answers = of.answer(questions)
    assert len(answers) == 3000
    assert sum(answer.known for answer in answers.values()) >= 1500
    assert of.answer(questions) == answers


def going_on(
    work: Work, gib: float, *, level: bool = True, utilization: float = 55.0, number: int = 7
) -> OngoingAttempt:
    kind, _, features = work.described()
    numbers = ResidentNumbers(
        peak_memory_bytes=int(gib * GIB), peak_utilization_pct=utilization, level_s=900.0 if level else None
    )
    return OngoingAttempt.of((number, 1), kind, features, DEVICE, numbers, shared=False)


def test_an_attempt_that_goes_on_counts_once_its_memory_is_level_with_a_wider_bound_than_one_that_ended():
    of = predictor()
    assert not of.watch([going_on(RESNET, 6.0, level=False)])
    assert not forecast(of, RESNET).known
    assert of.watch([going_on(RESNET, 6.0)])
    answer = forecast(of, RESNET)
    assert answer.evidence == "own history, 1 run that goes on, memory level so far"
    assert answer.peak_utilization_pct == 55.0
    assert answer.peak_memory_bytes == pytest.approx(6 * GIB, rel=0.011)
    assert (answer.upper_memory_bytes or 0) / (answer.peak_memory_bytes or 1) == pytest.approx(1.41, abs=0.02)
    assert (answer.duration_p50_s, of.support(RESNET.described()[0], {}, DEVICE).runs) == (None, 0)
    assert not forecast(of, Work("resnet50", 128, 60.0, 6 * GIB)).known, "it says nothing of other settings"


def test_several_that_go_on_are_no_surer_than_one():
    of = predictor()
    of.watch([going_on(RESNET, 6.0, number=number) for number in range(5)])
    answer = forecast(of, RESNET)
    assert (answer.upper_memory_bytes or 0) > 1.39 * 6 * GIB
    assert answer.evidence == "own history, 5 runs that go on, memory level so far"


def test_growth_after_a_level_corrects_the_kind_at_once():
    of = predictor()
    of.watch([going_on(RESNET, 6.0)])
    assert forecast(of, RESNET).known
    assert of.watch([going_on(RESNET, 9.0, level=False)])
    assert not forecast(of, RESNET).known, "nothing else is known of it"
    of.watch([going_on(RESNET, 9.0)])
    assert (forecast(of, RESNET).upper_memory_bytes or 0) > 1.39 * 9 * GIB


def test_one_that_goes_on_raises_what_ended_runs_say_and_replaces_nothing_of_it():
    ended = runs(RESNET, 3)
    of = predictor(*ended)
    before = forecast(of, RESNET)
    of.watch([going_on(RESNET, 3.0)])
    assert forecast(of, RESNET) == before
    of.watch([going_on(RESNET, 12.0, level=False)])
    assert (forecast(of, RESNET).upper_memory_bytes or 0) > 1.15 * 12 * GIB
    assert forecast(of, RESNET).evidence == before.evidence


def test_its_end_takes_its_place():
    of = predictor()
    of.watch([going_on(RESNET, 6.0, number=0)])
    forecast(of, RESNET)
    (ended,) = runs(RESNET, 1)
    of.learn(replace(ended, attempt=(0, 1)))
    assert forecast(of, RESNET).evidence == "own history, 1 run"
    assert not of.watch([going_on(RESNET, 30.0, number=0)]), "a late report of an attempt that has ended"


def test_forecasts_do_not_change_with_every_reading_and_impossible_ones_count_as_unknown():
    of = predictor()
    of.watch([going_on(RESNET, 6.0, utilization=55.3)])
    assert not of.watch([going_on(RESNET, 5.0, utilization=54.8)])
    assert not of.watch([going_on(RESNET, 6.0, utilization=55.9)])
    assert of.watch([])
    assert not of.watch([replace(going_on(RESNET, 6.0), peak_memory_bytes=None)])
    assert going_on(RESNET, -1.0).peak_memory_bytes is None


def with_dry_run(features: dict[str, Any], gib: float) -> dict[str, Any]:
    return {**features, "traced": {"framework": "torch", "reserved_bytes": int(gib * GIB), "convolution_bytes": 0}}


def test_a_dry_run_bounds_the_memory_of_a_job_that_never_ran_and_its_first_run_takes_its_place():
    kind, _, features = RESNET.described()
    of = predictor()
    answer = of.forecast_for(kind, with_dry_run(features, 4.0), "Tesla V100")
    assert answer.evidence == "memory from a dry run"
    assert 4 * GIB < (answer.peak_memory_bytes or 0) < (answer.upper_memory_bytes or 0) < 6.5 * GIB
    assert answer.peak_utilization_pct == 100.0, "unknown, so it may use the whole device"
    unmeasured = of.forecast_for(kind, with_dry_run(features, 4.0), DEVICE)
    assert (unmeasured.upper_memory_bytes or 0) / (unmeasured.peak_memory_bytes or 1) > 1.15
    assert "assuming a context of" in unmeasured.evidence
    assert not of.forecast_for(kind, with_dry_run(features, 4.0), "cpu-2").known, "it is about GPUs"
    of.learn(runs(RESNET, 1)[0])
    assert of.forecast_for(kind, with_dry_run(features, 40.0), DEVICE).evidence == "own history, 1 run"


def test_a_damaged_dry_run_says_nothing():
    kind, _, features = RESNET.described()
    for damaged in (5, {}, {"reserved_bytes": "many"}, {"reserved_bytes": -1}, {"reserved_bytes": True}):
        assert not predictor().forecast_for(kind, {**features, "traced": damaged}, DEVICE).known
