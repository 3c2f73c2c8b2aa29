"""The trainer: clusters, calibration, and the judgement of candidates."""

from __future__ import annotations

import random
from dataclasses import replace

import msgspec
import pytest

from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.forecast import UNKNOWN
from gpuq.learn.history.history import History
from gpuq.learn.history.outcome import Outcome
from gpuq.learn.memory.clusters import ClusterMember
from gpuq.learn.serving.model import Calibration, Model, from_json, to_json
from gpuq.learn.serving.predictor import Predictor
from gpuq.learn.training.score import ScoredForecast, admission_loss, judge, pinball
from gpuq.learn.training.train import fit, fit_clusters
from gpuq.settings import Learning
from tests.learn.world import DEVICE, GIB, Work, run

LEARNING = Learning()


def member(name: str, utilization: float, memory: int) -> ClusterMember:
    return ClusterMember(name, (f"model:{name}",), None, utilization, memory)


def test_similar_profiles_form_one_cluster_each():
    chance = random.Random(1)
    members = [
        member(f"{name}{i}", level + chance.uniform(-2, 2), round(memory * chance.uniform(0.97, 1.03)))
        for name, level, memory in (("a", 20, GIB), ("b", 60, 6 * GIB), ("c", 95, 20 * GIB))
        for i in range(5)
    ]
    found = fit_clusters(members, 0.95)
    assert sorted("".join(m.kind[0] for m in cluster.members) for cluster in found) == ["aaaaa", "bbbbb", "ccccc"]
    for cluster in found:
        highest = max(m.memory_bytes for m in cluster.members)
        assert cluster.memory_upper_bytes > highest >= cluster.memory_typical_bytes
        assert cluster.utilization_upper_pct == max(m.utilization_pct for m in cluster.members)


def test_noise_alone_makes_no_clusters():
    members = [member(f"m{i}", 50 + i * 0.1, GIB + i * 1000) for i in range(12)]
    assert len(fit_clusters(members, 0.95)) == 1


@pytest.mark.parametrize("count", [1, 2, 3])
def test_clustering_works_with_few_kinds(count: int):
    assert sum(len(c.members) for c in fit_clusters([member(f"m{i}", 50.0, GIB) for i in range(count)], 0.95)) == count
    assert fit_clusters([], 0.95) == ()


def test_the_same_outcomes_give_the_same_model():
    outcomes = [run(Work(f"net{i % 5}", 8, 10.0 * (i % 5), GIB), i, random.Random(i)) for i in range(30)]
    assert to_json(fit(outcomes, LEARNING)) == to_json(fit(outcomes, LEARNING))


def test_types_of_device_never_mix():
    outcomes = [run(Work("a", 8, 10.0, GIB), i, random.Random(i), device_type=f"GPU {i % 2}") for i in range(8)]
    assert set(fit(outcomes, LEARNING).clusters) == {"GPU 0", "GPU 1"}


def test_calibration_widens_bounds_of_noisy_kinds_until_they_hold():
    """Memory that jumps by far more than the prior allows: later attempts show it, the calibration answers."""
    chance = random.Random(4)
    works = [Work(f"net{i}", 8, 50.0, GIB, noise=0.4) for i in range(20)]
    outcomes = [run(work, 20 * n + i, chance) for n in range(6) for i, work in enumerate(works)]
    assert fit(outcomes, LEARNING).calibration.scale == pytest.approx(0.4, rel=0.15)
    later = [run(work, 900 + 20 * n + i, chance) for n in range(6) for i, work in enumerate(works)]
    model = fit(outcomes, LEARNING)
    judged = judge(outcomes, later, model, replace_calibration(model), LEARNING)
    assert (judged.candidate.memory_under_share or 0) < (judged.serving.memory_under_share or 0)
    assert (judged.candidate.memory_under_share or 0) <= 0.05
    assert (judged.candidate.memory_overshoot or 9) < 1.5 * (judged.serving.memory_overshoot or 0)


def replace_calibration(model: Model) -> Model:
    return msgspec.structs.replace(model, calibration=Calibration())


def test_one_kind_with_many_runs_does_not_set_the_calibration():
    chance = random.Random(2)
    works = [Work(f"net{i}", 8, 50.0, GIB, noise=0.3) for i in range(20)]
    honest = [run(work, 20 * n + i, chance) for n in range(5) for i, work in enumerate(works)]
    flood = [run(Work("flood", 8, 50.0, GIB, noise=0.0), 1000 + i, chance) for i in range(2000)]
    alone, flooded = fit(honest, LEARNING), fit([*honest, *flood], LEARNING)
    assert flooded.calibration.scale > 0.8 * alone.calibration.scale


def test_calibration_narrows_bounds_by_at_most_a_tenth():
    flat = [run(Work(f"net{i % 30}", 8, 50.0, GIB, noise=0.0), i, random.Random(i)) for i in range(120)]
    calibration = fit(flat, LEARNING).calibration
    assert calibration.scale == pytest.approx(0.03)
    assert 0.9 <= calibration.few < 0.95


def test_pinball_loss_is_least_at_the_quantile():
    truths = [float(i) for i in range(1, 101)]
    losses = {f: sum(pinball(t, f, 0.9) for t in truths) for f in (50.0, 80.0, 90.0, 95.0, 100.0)}
    assert min(losses, key=losses.__getitem__) == 90.0


@pytest.mark.parametrize(("wrong", "better"), [(2, "admit all"), (20, "refuse all")])
def test_refusing_all_pairs_is_worse_where_few_exceed_the_budget_and_better_where_many_do(wrong: int, better: str):
    def loss(admitted: bool) -> float:
        slowdowns = [1.5] * wrong + [1.0] * (40 - wrong)
        met = [
            run(Work("a", 8, 10.0, GIB), i, random.Random(i), slowdowns=(("b", value, None, None),))
            for i, value in enumerate(slowdowns)
        ]
        rows = [ScoredForecast(one, UNKNOWN, 0.0, ("a", 0), admitted) for one in met]
        return sum(admission_loss(row, Limits(risk=0.1)) or 0.0 for row in rows)

    assert min(("admit all", "refuse all"), key=lambda way: loss(way == "admit all")) == better


def world(seed: int = 1) -> list[Outcome]:
    chance = random.Random(seed)
    works = [Work(f"{name}{i}", 32, level, memory) for name, level, memory in
             (("mobilenet", 20.0, GIB), ("bert", 90.0, 12 * GIB)) for i in range(8)]  # fmt: skip
    order = [work for work in works for _ in range(2)]
    return [run(work, i, chance) for i, work in enumerate(chance.sample(order, len(order)))]


def test_model_with_clusters_beats_no_model_on_new_kinds():
    outcomes = world()
    earlier, held_out = outcomes[:16], outcomes[16:]
    judged = judge(earlier, held_out, fit(earlier, LEARNING), None, LEARNING)
    assert judged.better
    assert "better" in judged.reason
    assert (judged.candidate.answered_share or 0) > (judged.serving.answered_share or 0)
    assert (judged.candidate.loss or 0) < (judged.serving.loss or 0)


def test_a_model_is_not_better_than_itself():
    outcomes = world()
    model = fit(outcomes[:16], LEARNING)
    judged = judge(outcomes[:16], outcomes[16:], model, model, LEARNING)
    assert not judged.better
    assert "no better" in judged.reason


def test_candidate_with_too_low_memory_bounds_is_refused():
    outcomes = world()
    model = fit(outcomes[:16], LEARNING)
    greedy = msgspec.structs.replace(model, calibration=Calibration(few=0.5, some=0.5, changed=0.5))
    judged = judge(outcomes[:16], outcomes[16:], greedy, None, LEARNING)
    assert not judged.better
    assert "worse in memory bounds that failed" in judged.reason


def test_held_out_attempts_without_measurements_are_not_scored():
    outcomes = world()
    blank = [replace(outcome, peak_memory_bytes=None) for outcome in outcomes[16:]]
    judged = judge(outcomes[:16], blank, fit(outcomes[:16], LEARNING), None, LEARNING)
    assert not judged.better
    assert "measured" in judged.reason


def test_held_out_kinds_of_an_unseen_device_type_are_scored_too():
    outcomes = world()
    moved = [replace(outcome, device_type="New GPU") for outcome in outcomes[16:]]
    judged = judge(outcomes[:16], moved, fit(outcomes[:16], LEARNING), None, LEARNING)
    assert judged.candidate.scored == len(moved)
    assert DEVICE not in {outcome.device_type for outcome in moved}


def test_training_learns_slowdowns_of_pairs():
    pairs = {("a", "b"): 1.6, ("b", "a"): 1.3, ("a", "c"): 1.5, ("c", "a"): 1.2, ("d", "b"): 1.6, ("b", "d"): 1.3}
    outcomes = [
        replace(
            run(Work("resnet", 8, 60, GIB), number, random.Random(number)),
            kind=kind,
            slowdowns=((beside, cost, None, None),),
        )
        for number, ((kind, beside), cost) in enumerate(pairs.items())
    ]
    model = fit(outcomes, LEARNING)
    predictor = Predictor(History.from_outcomes(outcomes), model, LEARNING)
    (cost,) = predictor.forecast_for("d", {}, DEVICE, ("c",)).pairs

    assert from_json(to_json(model)) == model
    assert cost.evidence == "learned", "never together, but each beside others"
    assert cost.newcomer is not None
    assert 1.3 < cost.newcomer < cost.newcomer_upper
    assert predictor.forecast_for("d", {}, DEVICE).pairs_known
    assert not predictor.forecast_for("d", {}, "another GPU").pairs_known
