"""From attempts on two types of device to a duration on one where the kind never ran."""

import random
from importlib.util import find_spec

import msgspec
import pytest

from gpuq.learn.history.history import History
from gpuq.learn.serving.model import from_json, to_json
from gpuq.learn.serving.predictor import Predictor
from gpuq.learn.training.train import fit
from gpuq.learn.transfer.train import fit_transfer
from gpuq.learn.transfer.transfer import Transfers
from gpuq.settings import Learning
from tests.learn.transfer.world import NEW, OLD, jobs
from tests.learn.world import Work, run

# Not `importorskip`: the import takes two seconds, in each process that collects tests.
pytestmark = pytest.mark.skipif(find_spec("sklearn") is None, reason="scikit-learn is in the extra `train`")
OTHER = Work("resnet18", 32, 40.0, 2**31)
MINE = Work("bert", 8, 90.0, 2**33)


def attempts(work, device_type, first, count=3, **changes):
    return [
        run(work, number, random.Random(number), device_type=device_type, **changes)
        for number in range(first, first + count)
    ]


def served(outcomes, profiles=()):
    model = from_json(to_json(fit(outcomes, Learning(), profiles)))
    return Predictor(History.from_outcomes(outcomes), model, Learning())


def test_duration_is_carried_from_the_measured_type():
    outcomes = [
        *attempts(OTHER, "T4", 0, alone_rate=10.0),
        *attempts(OTHER, "V100", 10, alone_rate=20.0),
        *attempts(MINE, "T4", 20, duration_s=100.0),
    ]
    predictor = served(outcomes)
    kind, _, features = MINE.described()
    forecast = predictor.forecast_for(kind, features, "V100")
    assert "transferred from T4" in forecast.evidence
    assert forecast.duration_p50_s == pytest.approx(50.0)
    assert forecast.duration_p90_s > 1.3 * 50.0, "one ratio from one kind needs a wide bound"


def test_memory_and_utilisation_are_not_carried():
    outcomes = [*attempts(OTHER, "T4", 0), *attempts(OTHER, "V100", 10), *attempts(MINE, "T4", 20)]
    far = Work("bert", 8, 90.0, 2**33)
    kind, _, _ = far.described()
    forecast = served(outcomes).forecast_for(kind, {"script_sha256": "a" * 64, "batch_log2": 3.0}, "V100")
    assert forecast.evidence == "transferred from T4"
    assert not forecast.known
    assert forecast.upper_memory_bytes is None


def test_own_history_goes_before_transfer():
    outcomes = [*attempts(OTHER, "T4", 0), *attempts(OTHER, "V100", 10), *attempts(MINE, "T4", 20)]
    predictor = served(outcomes)
    kind, _, features = MINE.described()
    for outcome in attempts(MINE, "V100", 30, duration_s=7.0):
        predictor.learn(outcome)
    forecast = predictor.forecast_for(kind, features, "V100")
    assert forecast.duration_p50_s == 7.0
    assert "transferred" not in forecast.evidence


def test_no_transfer_for_another_script_or_an_unconnected_type():
    outcomes = [*attempts(OTHER, "T4", 0), *attempts(OTHER, "V100", 10), *attempts(MINE, "T4", 20)]
    predictor = served(outcomes)
    kind, _, features = MINE.described()
    assert predictor.forecast_for(kind, features, "A100").duration_p50_s is None
    assert predictor.forecast_for(kind, {**features, "script_sha256": "b" * 64}, "V100").duration_p50_s is None


def test_profile_gives_a_better_ratio_than_the_common_one():
    found = jobs(10)
    history = History()
    number = 0
    for old, new in found:
        for profile in (old, new):
            if profile is found[-1][1]:
                continue  # the job in question never ran there
            number += 1
            features = {"script_sha256": profile.script_sha256, "batch_log2": profile.batch_log2}
            outcome = run(
                OTHER,
                number,
                random.Random(0),
                kind=profile.kind,
                features=features,
                device_type=profile.device_type,
                alone_rate=1 / profile.step_s,
                duration_s=1000 * profile.step_s,
            )
            history.learn(outcome)
    profiles = [old for old, _ in found]
    mine, truth = found[-1]
    known = history.runs(mine.kind, OLD)[-1].known
    with_profiles, without = fit_transfer(history, profiles, 0.95), fit_transfer(history, [], 0.95)
    assert with_profiles.carriers[OLD][NEW].targets == (NEW,)
    assert without.carriers == {}
    by_profile, by_ratio = (Transfers(one).duration(history, mine.kind, known, NEW) for one in (with_profiles, without))
    actual = 1000 * truth.step_s
    assert abs(by_profile.duration_p50_s / actual - 1) < abs(by_ratio.duration_p50_s / actual - 1)
    assert by_profile.duration_p50_s < by_profile.duration_p90_s
    assert by_profile.anchor == OLD


def test_model_without_transfer_still_loads():
    model = fit(attempts(OTHER, "T4", 0), Learning())
    old = msgspec.json.decode(to_json(model))
    del old["transfer"]
    assert from_json(msgspec.json.encode(old)).transfer.ratios == {}
