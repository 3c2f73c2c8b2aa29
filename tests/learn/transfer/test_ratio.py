import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuq.learn.history.history import History
from gpuq.learn.transfer.ratio import pooled, ratios
from tests.learn.world import Work, run

SMALL, LARGE = Work("resnet18", 32, 40.0, 2**31), Work("bert", 8, 90.0, 2**33)


def history(*outcomes):
    return History.from_outcomes(outcomes)


def on(work, device_type, number, **changes):
    return run(work, number, random.Random(number), device_type=device_type, **changes)


def test_a_kind_that_ran_on_both_types_gives_the_ratio_of_its_steps_both_ways():
    found = ratios(history(on(SMALL, "T4", 1, alone_rate=10.0), on(SMALL, "V100", 2, alone_rate=30.0)), 0.95)
    assert math.exp(found["T4"]["V100"].log) == pytest.approx(1 / 3)
    assert math.exp(found["V100"]["T4"].log) == pytest.approx(3)
    assert found["T4"]["V100"].kinds == 1


def test_no_ratio_without_a_kind_that_ran_on_both_types():
    assert ratios(history(on(SMALL, "T4", 1), on(LARGE, "V100", 2)), 0.95) == {}


def test_another_script_is_other_work():
    changed = Work("resnet18", 32, 40.0, 2**31, script_sha256="b" * 64)
    assert ratios(history(on(SMALL, "T4", 1), on(changed, "V100", 2)), 0.95) == {}


def test_without_steps_the_durations_alone_are_compared():
    quick = {"alone_rate": None, "duration_s": 20.0}
    slow = {"alone_rate": None, "duration_s": 60.0}
    held_up = {"alone_rate": None, "duration_s": 500.0, "shared": True}
    found = ratios(
        history(on(SMALL, "T4", 1, **slow), on(SMALL, "V100", 2, **quick), on(SMALL, "V100", 3, **held_up)), 0.95
    )
    assert math.exp(found["T4"]["V100"].log) == pytest.approx(1 / 3)


def test_more_kinds_that_agree_narrow_the_margin():
    assert pooled([1.0], 0.95).margin > pooled([1.0] * 5, 0.95).margin > pooled([1.0] * 50, 0.95).margin > 0


@given(st.lists(st.floats(-3, 3), min_size=3, max_size=20), st.floats(-50, 50))
def test_ratio_is_robust_to_one_wrong_kind(logs, wrong):
    assert min(logs) <= pooled([*logs, wrong], 0.95).log <= max(logs)
