"""Memory from the layers of a network: the sum, its fit, and its assumptions."""

from __future__ import annotations

import math
import random
from itertools import product
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuq.core.state.forecast import Forecast
from gpuq.lab.public import folder
from gpuq.lab.public.schedtune import outcomes
from gpuq.learn.features.architectures import find
from gpuq.learn.features.kind import describe
from gpuq.learn.history.history import History
from gpuq.learn.history.outcome import Outcome
from gpuq.learn.memory.footprint import (
    MIB,
    SHIPPED,
    Coefficients,
    LayerForecast,
    MeasuredPeak,
    blended,
    fit,
    footprint,
    on_device,
    parts_of,
    usually_off,
)
from gpuq.learn.serving.model import Model
from gpuq.learn.serving.predictor import Predictor
from gpuq.learn.training.train import fit as train
from gpuq.messages.submission import Submission
from gpuq.settings import Learning

V100 = "Tesla V100"
RESNET: dict[str, Any] = {"constructors": ["resnet50"], "batch_size": 32, "image_size": 224}


def answer(device_type: str = V100, coefficients: Coefficients | None = None, **changed: Any) -> LayerForecast:
    found = footprint(RESNET | changed, device_type, coefficients)
    assert found is not None
    return found


def rows(slope: float = 1.0, context: float = 800.0, noise: float = 0.0) -> list[MeasuredPeak]:
    """Networks measured in a world of its own: activations cost `slope` times what the layers say."""
    chance = random.Random(1)
    found = []
    for name in ("resnet18", "resnet50", "resnet152", "vgg11", "vgg16", "densenet121", "densenet201", "alexnet"):
        architecture = find(name)
        assert architecture is not None
        for batch in (8, 16, 32, 64):
            mib = context + 4 * architecture.parameters_mib
            mib += batch * (slope * architecture.saved_mib + 2 * architecture.largest_mib)
            features = {"constructors": [name], "batch_size": batch, "image_size": 224, "optimizer": "adam"}
            found.append(measured(features, mib * MIB * chance.lognormvariate(0, noise)))
    return found


def measured(features: dict[str, Any], peak_bytes: float, device_type: str = "A") -> MeasuredPeak:
    parts = parts_of(features)
    assert parts is not None
    return MeasuredPeak(parts, device_type, peak_bytes)


def test_script_that_constructs_resnet50_gets_a_footprint():
    """2.6 times 25.6 million parameters' bytes and 32 samples' layers on a V100: 4.7 GB in the paper's own table."""
    found = answer()
    assert 4.3e9 < found.point < 5.4e9
    assert found.point < found.upper < 1.35 * found.point
    assert found.evidence == "layers of resnet50"


@pytest.mark.parametrize("unclear", [{"constructors": []}, {"constructors": ["MyNet"]}, {"batch_size": None}])
def test_too_few_features_give_no_footprint(unclear: dict[str, Any]):
    assert footprint(RESNET | unclear, V100) is None


@pytest.mark.parametrize("name", ["ResNet50", "models.resnet50", "torchvision/resnet50", "resnet_50", "RESNET50"])
def test_one_network_has_many_spellings(name: str):
    assert answer(constructors=[name]).point == answer().point


def test_a_pretrained_name_counts_and_tokens_are_its_size():
    short, long = (
        footprint({"constructors": ["AutoModel.from_pretrained:bert-base-uncased"], "batch_size": 16, **size}, V100)
        for size in ({"sequence_length": 128}, {"sequence_length": 512})
    )
    assert short is not None
    assert long is not None
    # Attention grows with the square.
    assert long.point > 3 * short.point


def test_model_of_the_command_goes_before_constructors():
    both = ["vgg19", "resnet18"]
    assert answer(constructors=both, model="resnet18").point == answer(constructors=["resnet18"]).point
    assert answer(constructors=both).point == answer(constructors=["vgg19"]).point, "unclear which: the larger"


def test_assumptions_are_named_and_widen_the_bound():
    stated, assumed = answer(), answer(image_size=None)
    assert assumed.point == stated.point
    assert assumed.upper > stated.upper
    assert assumed.evidence == "layers of resnet50, assuming images of 224 pixels"
    assert "a context of" in answer("GPU never measured").evidence


def test_optimiser_and_precision_change_the_footprint():
    adam, sgd, half = answer(optimizer="adam"), answer(optimizer="sgd"), answer(precision="fp16")
    assert adam.point == answer(optimizer=None).point, "the default is the most common optimizer, which keeps most"
    resnet = find("resnet50")
    assert resnet is not None
    # One tensor of the parameters' size, and the margin of a point.
    assert (adam.point - sgd.point) / MIB == pytest.approx(resnet.parameters_mib, rel=0.06)
    assert half.point < 0.75 * adam.point
    assert answer(precision="fp32").point == adam.point


def test_tensorflow_footprint_is_a_power_of_two_above_the_context():
    """As in the measured peaks of MISO's jobs: a constant and a power of two."""
    context = round(SHIPPED.contexts[V100] * MIB)
    for batch in (8, 16, 32, 64):
        tensors = (answer(batch_size=batch, framework="tensorflow").point - context) / MIB
        assert tensors == pytest.approx(2 ** round(tensors).bit_length() / 2, abs=0.01)
        assert tensors >= (answer(batch_size=batch).point - context) / MIB


def test_fit_without_rows_returns_the_physics():
    empty = fit([], 0.95)
    assert (empty.state, empty.saved, empty.working, empty.context) == (1, 1, 2, 600)
    assert empty.bound.votes == 0
    bare = answer(coefficients=empty)
    assert bare.upper > 1.25 * bare.point, "no residual has tested it"


def test_rows_correct_the_physics():
    found = fit(rows(slope=1.4), 0.95)
    assert found.saved == pytest.approx(1.4, rel=0.05)
    assert found.state == pytest.approx(1.0, rel=0.08)
    assert found.contexts["A"] == pytest.approx(800, rel=0.1)
    one = fit(rows(slope=1.4)[:1], 0.95)
    assert 1.0 < one.saved < 1.3, "one row is little evidence"


def test_fit_is_robust_to_a_few_absurd_peaks():
    good = rows(noise=0.02)
    bad = [measured({"constructors": ["resnet34"], "batch_size": 32, "image_size": 224}, 70e9)]
    clean, bent = fit(good, 0.95), fit([*good, *bad], 0.95)
    assert bent.saved == pytest.approx(clean.saved, rel=0.1)
    no_reading = measured({"constructors": ["resnet34"], "batch_size": 32}, 0)
    stepped = measured({"constructors": ["resnet34"], "batch_size": 32, "framework": "tensorflow"}, 4e9)
    assert fit([*good, no_reading, stepped], 0.95) == clean


def test_bounds_hold_for_networks_the_fit_has_not_seen():
    seen = rows(noise=0.05)
    under = 0
    for name in {row.parts.name for row in seen}:
        found = fit([row for row in seen if row.parts.name != name], 0.95)
        under += sum(row.peak_bytes > on_device(row.parts, "A", found).upper for row in seen if row.parts.name == name)
    assert under <= 0.1 * len(seen)


def test_the_same_rows_give_the_same_coefficients_and_survive_the_shelf():
    found = fit(rows(noise=0.05), 0.95)
    assert found == fit(rows(noise=0.05), 0.95)
    assert msgspec.json.decode(msgspec.json.encode(found), type=Coefficients) == found


@settings(deadline=None, max_examples=100)
@given(
    st.dictionaries(
        st.sampled_from(["constructors", "model", "batch_size", "image_size", "optimizer", "precision", "framework"]),
        st.one_of(
            st.none(), st.text(max_size=5), st.floats(), st.integers(), st.lists(st.text(max_size=9), max_size=3)
        ),
    )
)
def test_odd_features_never_raise(odd: dict[str, Any]):
    found = footprint(RESNET | odd, V100)
    assert found is None or 0 < found.point <= found.upper


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 4096), st.integers(1, 4096), st.sampled_from([None, "tensorflow"]))
def test_a_larger_batch_never_needs_less(first: int, second: int, framework: str | None):
    small, large = (answer(batch_size=each, framework=framework) for each in sorted((first, second)))
    assert small.point <= large.point
    assert small.upper <= large.upper


def test_blend_weights_forecasts_by_their_margins():
    layers = LayerForecast(2_000_000_000, 2_300_000_000, "layers")
    point, upper = blended((4e9, 16e9), layers)
    assert 2.0e9 < point < 2.1e9, "a guess that allows a factor of four says little"
    assert 2.3e9 <= upper < 2.6e9
    alike = blended((2e9, 2.3e9), layers)
    assert alike == pytest.approx((2e9, 2.3e9)), "agreement is no reason for a narrower bound"


def test_footprints_that_were_off_count_less():
    layers = LayerForecast(2_000_000_000, 2_300_000_000, "layers")
    near, far = (blended((4e9, 8e9), layers, off)[0] for off in (0.0, 2.0))
    assert near < 2.1e9
    assert far > 3.7e9


def test_usually_off_is_estimated_per_network():
    held = [measured(RESNET | {"batch_size": batch}, answer(batch_size=batch).point, V100) for batch in (8, 16, 32)]
    frozen = [measured(RESNET | {"constructors": ["vgg16"]}, answer(constructors=["vgg16"]).point / 10, V100)]
    assert usually_off([], 0.95) == pytest.approx(0.16, abs=0.01)
    assert usually_off(held, 0.95) < usually_off([], 0.95)
    assert usually_off([*held, *frozen], 0.95) > math.log(5)


def test_assumed_image_size_may_be_twice_as_large():
    known, assumed = answer(), answer(image_size=None)
    assert assumed.point == known.point
    assert assumed.upper > answer(image_size=448).point


def test_contradicting_forecasts_widen_the_bound():
    point, upper = blended((4e9, 4.4e9), LayerForecast(2_000_000_000, 2_200_000_000, "layers"))
    assert point == pytest.approx((2e9 * 4e9) ** 0.5, rel=1e-6)
    assert upper > 1.35 * point


@settings(deadline=None, max_examples=100)
@given(st.floats(0, 1e12), st.floats(1, 50), st.integers(1, 10**12), st.floats(1, 50))
def test_blend_lies_between_both_points_and_under_its_bound(guess: float, wide: float, point: int, wider: float):
    found = LayerForecast(point, round(point * wider), "layers")
    both, upper = blended((guess, guess * wide), found)
    assert min(guess, point) * (1 - 1e-9) <= both <= max(guess, point, 1.0) * (1 + 1e-9)
    assert upper >= both * (1 - 1e-9)
    assert upper >= min(guess * wide, found.upper) * (1 - 1e-9)


def outcome(place: int, network: str, batch: int, peak_bytes: float) -> Outcome:
    command = ("python", "train.py", "--model", network, "--batch-size", str(batch), "--image-size", "224")
    kind, signature, features = describe(Submission(command=command, cwd="/w", script="train.py"), "ada")
    return Outcome(
        kind=kind, signature=signature, script_sha256=None, device_type=V100, features=features,
        peak_utilization_pct=50.0, peak_memory_bytes=round(peak_bytes), duration_s=60.0, alone_rate=None,
        shared_rate=None, slowdowns=(), ending="exited", shared=False, ended_at=float(place), attempt=(place, 1),
    )  # fmt: skip


def test_footprint_is_blended_into_forecasts_and_never_served_alone():
    """Small networks ran; a large one of the same script is asked for, which the regression alone would take for a small one."""
    small = [
        outcome(place, name, batch, answer(constructors=[name], batch_size=batch).point)
        for place, (name, batch) in enumerate(product(("resnet18", "resnet34", "alexnet", "squeezenet1_1"), (16, 32)))
    ]
    asked = outcome(0, "vgg19", 32, 1)
    truth = answer(constructors=["vgg19"]).point

    def served(found: Model | None, **changed: Any) -> Forecast:
        return Predictor(History(), found, Learning()).forecast_for("new", {**asked.features, **changed}, V100)

    trained_on_small = train(small, Learning())
    with_layers, by_similar_jobs = served(trained_on_small), served(trained_on_small, image_size=None, model=None)
    assert with_layers.evidence.endswith("; layers of vgg19")
    assert abs((with_layers.peak_memory_bytes or 0) - truth) < abs((by_similar_jobs.peak_memory_bytes or 0) - truth)
    assert (with_layers.upper_memory_bytes or 0) >= truth
    assert not served(None).known, "no measured job is like it: it runs alone, whatever its layers say"


def test_shipped_coefficients_are_those_of_the_measured_rows():
    data = folder()
    if data is None:
        pytest.skip("no measured public data (GPUQ_DATA)")
    found = [
        measured(outcome.features, outcome.peak_memory_bytes or 0, outcome.device_type) for outcome in outcomes(data)
    ]
    assert fit(found, 0.95) == SHIPPED
