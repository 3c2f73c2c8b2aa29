"""Ranges of memory and time for changed settings of a script."""

from __future__ import annotations

import math
from typing import Any

import pytest

from gpuq.learn.features import growth
from gpuq.learn.features.growth import (
    ScriptRuns,
    SettingsComparison,
    bounded,
    busier,
    seconds,
)
from gpuq.learn.features.setting_effects import ANYTHING, SettingChange, assumed_effect, changes
from gpuq.learn.history.history import MeasuredRun
from gpuq.learn.history.job_features import JobFeatures, Value

GIB = 2**30
GPU = "Test GPU"


def known(framework: str | None = None, **values: Value) -> JobFeatures:
    named = {name.replace("_", "-"): value for name, value in values.items()}
    return JobFeatures(values=tuple(sorted(named.items())), framework=framework)


def ran(gib: float, seconds_: float = 600.0, first_step_s: float | None = None, **values: Value) -> MeasuredRun:
    return MeasuredRun(
        known=known(**values), peak_utilization_pct=50.0, peak_memory_bytes=round(gib * GIB), duration_s=seconds_,
        alone_rate=None, whole=True, shared=False, attempt=None, first_step_s=first_step_s,
    )  # fmt: skip


def compared(runs: list[MeasuredRun], device_type: str = GPU, **values: Value) -> SettingsComparison:
    return ScriptRuns(runs, device_type).compared(known(**values))


def memory(runs: list[MeasuredRun], **values: Value) -> tuple[float, float]:
    """(least, most) in GiB."""
    needs = compared(runs, **values).memory
    assert needs is not None
    assert needs.least <= needs.usual <= needs.most
    return needs.least / GIB, needs.most / GIB


@pytest.mark.parametrize(
    ("setting", "at_least", "at_most"),
    [
        ("hidden", 2.8, 4.0),
        ("batch-size", 1.6, 2.0),
        ("layers", 1.8, 2.0),
        ("rows", 1.8, 2.0),
        ("image-size", 2.8, 4.0),
        ("epochs", 1.0, 1.1),
    ],
)
def test_range_for_twice_the_value_follows_the_meaning_of_the_setting(setting: str, at_least: float, at_most: float):
    """Of ten GiB on a GPU, nearly all grows."""
    least, most = memory([ran(10.0, **{setting: 8.0})], **{setting: 16.0})
    assert at_least < most / 10 <= at_most
    assert least == pytest.approx(10.0)
    _, most = memory([ran(10.0, **{setting: 16.0})], **{setting: 8.0})
    assert most == pytest.approx(10.0), "a smaller value is bounded by the larger one's need"


def test_fixed_part_of_a_framework_does_not_grow():
    runs = [MeasuredRun(known=known("keras", hidden=8.0), peak_utilization_pct=1.0, peak_memory_bytes=300 * 2**20, duration_s=9.0,
                alone_rate=None, whole=True, shared=False, attempt=None)]  # fmt: skip
    needs = ScriptRuns(runs, "cpu-1").compared(known("keras", hidden=16.0)).memory
    assert needs is not None
    assert 300 * 2**20 < needs.most < 2 * 300 * 2**20


@pytest.mark.parametrize(
    ("name", "old", "new", "at_most"),
    [
        ("precision", "bfloat16", "float64", 4.0),
        ("precision", "int4", "float32", 8.0),
        ("precision", "fp16", "bf16", 2.0),
        ("precision", "fp32", "fp16", 2.0),
        ("optimizer", "sgd", "adamw", 2.0),
        ("optimizer", "adam", "lbfgs", ANYTHING),
        ("optimizer", "adamw", "shampoo", ANYTHING),
        ("stage", "vae", "diffusion", ANYTHING),
        ("solver", "euler", "dopri5", ANYTHING),
        ("disable-flash", None, "true", ANYTHING),
        ("without-checkpointing", "false", "true", ANYTHING),
        ("flash", None, "true", 1.0),
    ],
)
def test_what_another_word_may_do(name: str, old: str | None, new: str, at_most: float):
    assert math.exp(assumed_effect(SettingChange(name, old, new), "memory").most) == pytest.approx(at_most)


def test_a_larger_checkpoint_is_a_larger_network_and_the_first_one_is_none():
    effects = [assumed_effect(SettingChange("resume", old, 4e9), "memory").most for old in (2e9, None, "true")]
    assert [math.exp(most) for most in effects] == pytest.approx([2.0, 1.0, 1.0])
    assert memory([ran(10.0)], resume=4e9)[1] == pytest.approx(10.0)


def test_two_widths_together_count_as_the_larger_effect():
    both = memory([ran(10.0, emsize=64.0, nhid=64.0)], emsize=128.0, nhid=128.0)[1]
    assert both == pytest.approx(memory([ran(10.0, nhid=64.0)], nhid=128.0)[1])
    rows_and_columns = memory([ran(10.0, rows=64.0, cols=64.0)], rows=128.0, cols=128.0)[1]
    assert rows_and_columns > 1.9 * memory([ran(10.0, rows=64.0)], rows=128.0)[1]


@pytest.mark.parametrize(
    ("before", "after"),
    [("lora", "full"), ("true", "false"), (8.0, 16.0), (8.0, 1.0), (0.2, 0.9), (0.9, 0.2), (1.0, 0.0), ("a", 1.0)],
)
def test_another_value_of_a_setting_with_an_unknown_name_may_need_anything(before: Value, after: Value):
    """`--tuner full` needs four times what `lora` does, `--reduction 1` eight times what 8 does."""
    one = ran(10.0, never_heard_of=before)
    assert memory([one], never_heard_of=after)[1] == ANYTHING
    asked = JobFeatures(values=known(never_heard_of=after).values, given=frozenset({"never-heard-of"}))
    needs = ScriptRuns([ran(10.0)], GPU).compared(asked).memory
    assert needs is not None
    assert needs.most == ANYTHING


def test_time_of_a_setting_with_an_unknown_name_is_about_the_same():
    assert seconds(compared([ran(1.0, never_heard_of="a")], never_heard_of="b").seconds)[0] == pytest.approx(600)


def test_numbers_that_hardly_differ_are_one():
    assert memory([ran(10.0, stamp=20261128100000.0)], stamp=20261128110000.0)[1] < 10.1


@pytest.mark.parametrize(
    ("setting", "before", "after", "needed"),
    [
        ("patch-size", 16.0, 8.0, 4.0),
        ("patch-size", 64.0, 128.0, 8.0),
        ("voxel-size", 0.1, 0.05, 8.0),
        ("hop-length", 512.0, 256.0, 2.0),
        ("tensor-parallel-size", 4.0, 2.0, 2.0),
        ("grid", 64.0, 128.0, 7.8),
        ("n-points", 1024.0, 2048.0, 3.9),
        ("seq-len", 512.0, 1536.0, 8.8),
        ("num-steps", 128.0, 1024.0, 7.8),
        ("max-duration", 200.0, 400.0, 1.8),
        ("clip-len", 16.0, 64.0, 4.0),
        ("num-generations", 8.0, 16.0, 2.0),
        ("max-depth", 6.0, 9.0, 8.0),
        ("log2-hashmap-size", 15.0, 19.0, 16.0),
        ("res", 256.0, 1024.0, 16.0),
        ("dp", 4.0, 1.0, 4.0),
        ("batch-size", 0.2, 0.9, 5.0),
    ],
)
def test_a_setting_that_multiplies_the_work_is_not_bounded_by_less(
    setting: str, before: float, after: float, needed: float
):
    assert memory([ran(40.0, **{setting: before})], **{setting: after})[1] > 0.98 * needed * 40


def test_what_saves_memory_may_hide_any_need_once_it_is_left_out():
    for name in ("gradient_checkpointing", "freeze_backbone", "use_lora", "cpu_offload", "load_in_4bit"):
        with_it, without = ran(6.0, **{name: "true"}), ran(6.0, **{name: "false"})
        assert memory([with_it], **{name: "false"})[1] == ANYTHING
        assert memory([without], **{name: "true"})[1] == pytest.approx(6.0)
        assert seconds(compared([with_it], **{name: "false"}).seconds)[0] == pytest.approx(600)
    assert memory([ran(6.0, precision="bf16")], precision="fp32")[1] == pytest.approx(12, rel=0.1)


def test_fewer_accumulation_steps_mean_larger_parts():
    assert memory([ran(10.0, num_minibatches=4.0)], num_minibatches=1.0)[1] > 30
    assert memory([ran(10.0, num_minibatches=1.0)], num_minibatches=4.0)[1] < 12


def test_another_model_may_need_anything():
    found = compared([ran(10.0, model="small")], model="large")
    assert (found.memory, found.seconds, found.load) == (None, None, None)


def test_data_kept_in_memory_may_need_anything_more():
    assert memory([ran(1.0, cache="false")], cache="true")[1] == ANYTHING
    assert memory([ran(1.0, cache="true")], cache="false")[1] == pytest.approx(1.0)


def test_every_further_run_narrows_the_range():
    small, large = ran(1.0, hidden=64.0), ran(4.0, hidden=512.0)
    alone, both = memory([small], hidden=256.0), memory([small, large], hidden=256.0)
    assert both[1] <= 4.0 < alone[1]
    assert both[0] >= alone[0]


def test_setting_measured_without_effect_does_not_widen_the_range():
    shown = [ran(1.0, shards=4.0, hidden=64.0), ran(1.01, shards=16.0, hidden=64.0)]
    assert memory([shown[0]], shards=32.0, hidden=64.0)[1] > 5
    assert memory(shown, shards=32.0, hidden=64.0)[1] < 1.6
    words = [ran(1.0, activation="relu"), ran(1.0, activation="gelu"), ran(1.01, activation="silu")]
    assert memory(words[:2], activation="tanh")[1] == ANYTHING
    assert memory(words, activation="tanh")[1] < 1.1


def test_effect_of_one_word_is_none_of_another():
    """That `fp16` needs what `bf16` does shows nothing of `fp32`."""
    halves = [ran(6.0, precision="bf16"), ran(6.0, precision="fp16")]
    assert memory(halves, precision="fp32")[1] == pytest.approx(12, rel=0.1)
    tuners = [ran(10.0, tuner="lora"), ran(40.0, tuner="full", steps=10.0)]
    assert memory(tuners, tuner="freeze")[1] == ANYTHING
    assert memory(tuners, tuner="full")[1] == pytest.approx(40, rel=0.1)


def test_a_smaller_patch_is_extrapolated_from_two_measured_ones():
    patches = [ran(4.0, patch_size=16.0), ran(16.0, patch_size=8.0)]
    assert memory(patches, patch_size=4.0)[1] > 0.98 * 64


def test_measured_effect_is_extrapolated_with_the_highest_power():
    """Memory of a + b * width ** 2 lies below the bound at any width beyond."""

    def truth(width: float) -> float:
        return 1.0 + width**2 / 64**2

    runs = [ran(truth(width), hidden=width) for width in (64.0, 128.0)]
    for width in (160.0, 256.0, 512.0):
        assert truth(width) * 0.75 < memory(runs, hidden=width)[1] < 2 * truth(width)


def test_memory_that_grew_with_the_length_of_a_run_goes_on_in_proportion():
    """As of a list of losses that keep their graphs."""
    leaking = [ran(2.0 + 0.2 * epochs, epochs=epochs) for epochs in (1.0, 2.0, 10.0)]
    assert 12 <= memory(leaking, epochs=50.0)[1] < 16
    level = [ran(2.0 + 0.001 * epochs, epochs=epochs) for epochs in (1.0, 2.0, 10.0)]
    assert memory(level, epochs=50.0)[1] < 3


def test_duration_grows_with_epochs_except_for_the_start_up():
    (one,) = [ran(1.0, 130.0, first_step_s=30.0, epochs=1.0)]
    half, most = seconds(compared([one], epochs=14.0).seconds)
    assert half == pytest.approx(30 + 14 * 100, rel=0.2)
    assert half < (most or 0) < 1.5 * half
    back, _ = seconds(compared([ran(1.0, 1430.0, first_step_s=30.0, epochs=14.0)], epochs=1.0).seconds)
    assert back == pytest.approx(130, rel=0.3)


def test_duration_at_two_measured_epochs_gives_a_line():
    runs = [ran(1.0, 10 + 50 * epochs, epochs=epochs) for epochs in (1.0, 4.0)]
    half, _ = seconds(compared(runs, epochs=20.0).seconds)
    assert half == pytest.approx(1010, rel=0.1)


@pytest.mark.parametrize("setting", ["hidden", "layers", "image-size", "rows", "never-heard-of"])
def test_p90_covers_a_smaller_setting_that_shortens_nothing(setting: str):
    """A small model's step takes as long as its fixed cost: half the width may save no time."""
    one = ran(1.0, 600.0, first_step_s=30.0, **{setting: 64.0})
    usual, most = seconds(compared([one], **{setting: 32.0}).seconds)
    assert (usual or 0) < 600 < (most or 0) < 1.2 * 600


@pytest.mark.parametrize(
    ("device_type", "shortest_s"), [(GPU, growth.SHORTEST_S), ("cpu-1", growth.SHORTEST_ON_CORES_S)]
)
def test_run_shorter_than_the_sampling_shows_no_memory(device_type: str, shortest_s: float):
    assert compared([ran(1.0, 0.9 * shortest_s, hidden=8.0)], device_type, hidden=16.0).memory is None
    assert compared([ran(1.0, shortest_s, hidden=8.0)], device_type, hidden=16.0).memory is not None


def test_setting_of_one_side_counts_only_if_it_was_given():
    plain, scripted = known(hidden=8.0), known(hidden=8.0, layers=2.0)
    assert changes(plain, scripted) == []
    asked = JobFeatures(values=scripted.values, given=frozenset({"layers"}))
    assert changes(asked, plain) == [SettingChange("layers", None, 2.0)]
    assert ScriptRuns([ran(1.0, hidden=8.0)], GPU).compared(asked).memory is not None
    needs = ScriptRuns([ran(1.0, hidden=8.0)], GPU).compared(asked).memory
    assert needs is not None
    assert needs.most == ANYTHING, "twice a default that is not known may be any number of times it"


def test_job_with_unknown_settings_differs_in_none():
    """Of a run that was recorded before settings were, a job that is given some differs in all of them."""
    assert changes(JobFeatures(), known(hidden=8.0)) == []
    asked = JobFeatures(values=known(hidden=8.0).values, given=frozenset({"hidden"}))
    assert changes(asked, JobFeatures()) == [SettingChange("hidden", None, 8.0)]


def test_more_work_raises_utilisation_up_to_100_percent():
    assert busier(50.0, 1.0) == 50.0
    assert busier(50.0, 3.0) == pytest.approx(75.0)
    assert busier(100.0, 8.0) == 100.0
    assert busier(0.0, 8.0) == 0.0


def test_bound_combines_noise_and_growth():
    assert bounded(growth.NeedRange(1.0, 1.0, 1.0), 1.2) == pytest.approx(1.2)
    assert bounded(growth.NeedRange(1.0, 1.0, 2.0), 1.2) == pytest.approx(
        math.exp(math.hypot(math.log(2), math.log(1.2)))
    )


def test_comparison_uses_a_limited_number_of_runs():
    runs = [ran(1.0 + n / 1000, hidden=64.0, shards=float(n + 1)) for n in range(500)]
    assert memory(runs, hidden=64.0, shards=499.0)[1] < 1.6


def test_setting_change_is_hashable_plain_data() -> None:
    values: dict[str, Any] = {"a": 1.0, "b": "x"}
    assert SettingChange("a", values["a"], 2.0).ratio == 2.0
    assert SettingChange("b", values["b"], 2.0).ratio is None
    assert SettingChange("a", 0.0, 2.0).ratio is None


def test_of_runs_that_used_no_memory_the_bound_is_what_the_largest_used() -> None:
    assert bounded(growth.NeedRange(0.0, 0.0, 0.0), 1.2) == 0.0
