"""Tables as people bring them: how they are made consistent, and the notes on it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuq.lab.evaluate.clean import clean, combined, combined_pairs
from gpuq.lab.measured import PairMeasurement, SingleMeasurement


def single(job: str, model: str | None = None, device: str = "V100", **measured: float) -> SingleMeasurement:
    return SingleMeasurement(device, job, job if model is None else model, **measured)


def pair(
    a: str, b: str, first: float | None, second: float | None, device: str = "V100", sharing: str | None = "mps"
) -> PairMeasurement:
    return PairMeasurement(device, sharing, a, b, first, second)


def said(notes: tuple[str, ...], words: str) -> bool:
    return any(words in note for note in notes)


def test_device_types_and_models_have_one_spelling_each() -> None:
    table = clean(
        [single("a", "ResNet50"), single("b", "ResNet50"), single("c", "resnet-50", device="v100 ")],
        [pair("a", "c", 1.1, 1.2)],
    )
    assert {found.device_type for found in table.singles} == {"V100"}
    assert {found.model for found in table.singles} == {"ResNet50"}


@pytest.mark.parametrize(("one", "other"), [("L-2_H-128", "L-21_H-28"), ("v1.1", "v11"), ("gpt2", "gpt3")])
def test_models_that_only_look_alike_stay_apart(one: str, other: str) -> None:
    assert len({found.model for found in clean([single("a", one), single("b", other)], []).singles}) == 2


def test_a_job_without_a_model_has_that_of_its_name() -> None:
    table = clean([single("VGG:16", ""), single("vgg:32", "vgg:32"), single("resnet-18", "")], [])
    assert len({found.model for found in table.singles}) == 2


def test_fractions_become_percent_with_a_note() -> None:
    table = clean(
        [single(name, utilization_pct=value) for name, value in zip("abcd", (0.1, 0.5, 1.0, 0.0), strict=True)], []
    )
    assert [found.utilization_pct for found in table.singles] == [10, 50, 100, 0]
    assert said(table.notes, "read as fractions")


def test_idle_jobs_are_not_taken_for_fractions() -> None:
    table = clean([single("a", utilization_pct=0.8), single("b", utilization_pct=60.0)], [])
    assert [found.utilization_pct for found in table.singles] == [0.8, 60]
    zeros = clean([single(name, utilization_pct=0.0) for name in "abcd"], [])
    assert not zeros.notes


def test_a_pair_and_its_other_direction_are_one_experiment() -> None:
    table = clean([single("a"), single("b")], [pair("b", "a", 1.5, None), pair("a", "b", 1.1, None)])
    (found,) = combined_pairs(table.pairs)
    assert (found.a.job, found.b.job, found.slowdown_a, found.slowdown_b) == ("a", "b", 1.1, 1.5)
    assert said(table.notes, "1 row repeating a pair")
    assert not said(table.notes, "one slowdown")


def test_repeats_are_combined_by_the_median() -> None:
    table = clean([], [pair("a", "b", value, None) for value in (1.0, 1.2, 3.0)])
    (found,) = combined_pairs(table.pairs)
    assert found.slowdown_a == pytest.approx(1.2)
    assert found.slowdown_b is None
    assert said(table.notes, "1 pair with one slowdown")


def test_a_job_beside_itself_keeps_both_of_its_slowdowns() -> None:
    (found,) = clean([single("a")], [pair("a", "a", 1.3, 1.4)]).pairs
    assert [row.slowdown for row in found.directed()] == [1.3, 1.4]


def test_types_of_devices_and_sharing_modes_are_never_mixed() -> None:
    rows = [pair("a", "b", 1.1, 1.1), pair("a", "b", 1.2, 1.2, sharing=None), pair("a", "b", 1.3, 1.3, device="K80")]
    table = clean([single("a", utilization_pct=50)], rows)
    assert len(combined_pairs(table.pairs)) == 3
    on_k80 = next(found for found in table.pairs if found.device_type == "K80")
    assert on_k80.a.utilization_pct is None


def test_jobs_without_a_single_are_named_and_grouped_by_their_names() -> None:
    table = clean(
        [single("x", "DCGAN")], [pair("DCGAN:256", "dcgan@bs=32", 1.1, 1.1), pair("resnet50", "lstm_b64", 1.0, 1.0)]
    )
    assert [pair.models for pair in table.pairs] == [{"DCGAN"}, {"resnet50", "lstm"}]
    assert said(table.notes, "4 jobs in pairs but not in singles")


def test_a_job_measured_elsewhere_keeps_its_model() -> None:
    table = clean([single("a", "VGG", device="K80")], [pair("a", "a", 1.1, 1.1)])
    assert table.pairs[0].models == {"VGG"}


def test_rows_without_measurement_are_left_out_with_a_note() -> None:
    table = clean([single("a")], [pair("a", "a", None, None)])
    assert not table.pairs
    assert said(table.notes, "1 pair with both slowdowns blank")


def test_speeds_given_for_slowdowns_are_noted() -> None:
    assert said(clean([], [pair("a", "b", 0.6, 0.7)]).notes, "look like speeds")


def test_percent_given_for_slowdowns_is_noted() -> None:
    assert said(clean([], [pair("a", "b", 104.0, 118.0)]).notes, "look like percent")


def test_repeated_singles_are_combined_and_other_batch_sizes_kept() -> None:
    rows = [single("a", batch_size=32, utilization_pct=value) for value in (40.0, 60.0, 50.0)]
    rows.append(replace(rows[0], batch_size=64, utilization_pct=90.0))
    assert [(found.batch_size, found.utilization_pct) for found in combined(rows)] == [(32, 50), (64, 90)]
    assert said(clean(rows, []).notes, "under a name that is taken")
