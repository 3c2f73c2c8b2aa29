"""Work per sample: stated, else from the network's name, else unknown."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuq.learn.features.architectures import PASSES, compute_log2, find


def work(**features: Any) -> float:
    found = compute_log2(features)
    assert found is not None
    return 2.0**found


def test_training_step_of_a_known_network_is_three_forward_passes():
    assert work(model="resnet50") == pytest.approx(PASSES * 4.089e9, rel=1e-3)
    assert work(constructors=["ResNet18", "resnet152", "Net"]) == pytest.approx(PASSES * 11.51e9, rel=1e-3)


def test_work_of_an_image_grows_with_its_area():
    assert work(model="resnet50", image_size=448) == pytest.approx(4 * work(model="resnet50", image_size=224), rel=2e-3)


def test_work_of_a_text_grows_faster_than_its_tokens():
    short, long = (work(model="bert-base-uncased", sequence_length=tokens) for tokens in (128, 512))
    assert 4 * short < long < 16 * short
    # 85 million parameters in 12 layers, each used once per token.
    assert short == pytest.approx(PASSES * 128 * 85e6, rel=0.05)


def test_bert_of_any_size_is_recognised_by_its_name():
    name = "small_bert/bert_en_uncased_L-12_H-768_A-12"
    found = find(name)
    assert found is not None
    assert found.parameters == pytest.approx(109_482_240, rel=1e-3)
    assert work(model=name, sequence_length=512) == pytest.approx(
        work(model="bert-base", sequence_length=512), rel=2e-3
    )


def test_stated_multiply_adds_go_before_the_network_name():
    assert work(model="resnet50", multiply_adds=1024) == pytest.approx(1024)


@pytest.mark.parametrize(
    "features",
    [
        {},
        {"model": "net"},
        {"model": "t5-small"},
        {"parameters": 5500, "layers": {"Dense": 3}},
        {"parameters": 5500},
        {"multiply_adds": math.nan},
        {"multiply_adds": True},
    ],
)
def test_work_is_unknown_without_a_known_network_or_a_stated_number(features: dict[str, Any]):
    assert compute_log2(features) is None


odd = (
    st.none()
    | st.booleans()
    | st.floats()
    | st.integers()
    | st.text(max_size=8)
    | st.lists(st.text(max_size=8), max_size=3)
)


@given(
    st.dictionaries(
        st.sampled_from(["multiply_adds", "model", "constructors", "parameters", "layers", "image_size"]), odd
    )
)
def test_odd_features_never_raise(features: dict[str, Any]):
    found = compute_log2(features)
    assert found is None or math.isfinite(found)
