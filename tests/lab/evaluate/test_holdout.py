"""What is held out: whatever the table, what is known tells nothing of what is asked."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuq.errors import BadInput
from gpuq.lab.evaluate.clean import CleanTables, clean, work
from gpuq.lab.evaluate.holdout import MOST_FOLDS, by_model, by_pair, by_time, few_of_a_job, few_pairs, hold_out
from gpuq.lab.measured import PairMeasurement, SingleMeasurement
from tests.lab.evaluate import tables

names = st.sampled_from([f"job{i}" for i in range(6)])
slowdowns = st.one_of(st.none(), st.floats(0.9, 4))
pair_rows = st.builds(
    PairMeasurement,
    st.sampled_from(["V100", "K80"]),
    st.sampled_from(["mps", None]),
    names,
    names,
    slowdowns,
    slowdowns,
    st.floats(1, 5),
)
single_rows = st.builds(
    SingleMeasurement, st.sampled_from(["V100", "K80"]), names, st.sampled_from(["m", "n", "o", ""])
)
drawn = st.builds(clean, st.lists(single_rows, max_size=12), st.lists(pair_rows, max_size=25))


def whole() -> CleanTables:
    alone = tables.singles()
    return clean(alone, tables.pairs(alone))


@settings(max_examples=60)
@given(drawn)
def test_held_out_model_is_in_no_training_row(table: CleanTables) -> None:
    models = [{model for pair in split.asked for model in pair.models} for split in by_model(table).pairs]
    for split, asked in zip(by_model(table).pairs, models, strict=True):
        held = asked - {model for pair in split.known for model in pair.models}
        assert all(held & pair.models for pair in split.asked)
        assert len(split.known) + len(split.asked) == len(table.pairs)
    for split in by_model(table).singles:
        assert {row.model for row in split.known}.isdisjoint(row.model for row in split.asked)


@settings(max_examples=60)
@given(drawn)
def test_by_pair_each_row_is_asked_once_and_its_repeats_with_it(table: CleanTables) -> None:
    held = by_pair(table)
    assert sorted(map(repr, (pair for split in held.pairs for pair in split.asked))) == sorted(map(repr, table.pairs))
    for split in held.pairs:
        assert {pair.key for pair in split.known}.isdisjoint(pair.key for pair in split.asked)
    for split in held.singles:
        assert {work(row) for row in split.known}.isdisjoint(work(row) for row in split.asked)


@settings(max_examples=60)
@given(drawn)
def test_few_known_pairs_are_never_among_those_asked(table: CleanTables) -> None:
    for held in (few_pairs(table), few_of_a_job(table)):
        for split in held.pairs:
            assert {pair.key for pair in split.known}.isdisjoint(pair.key for pair in split.asked)


def test_a_pair_of_two_models_is_asked_with_either_held_out() -> None:
    table = clean(
        [], [PairMeasurement("V100", None, "a", "b", 1.1, 1.1), PairMeasurement("V100", None, "a", "a", 1.1, 1.1)]
    )
    assert sum(len(split.asked) for split in by_model(table).pairs) == 3


def test_many_models_are_held_out_in_groups_with_a_note() -> None:
    table = clean([SingleMeasurement("V100", f"job-{i}x", f"m{i}x") for i in range(100)], [])
    held = by_model(table)
    assert len(held.singles) == MOST_FOLDS
    assert "in 24 groups" in held.how


def test_time_is_cut_once_in_the_middle() -> None:
    alone = [replace(single, measured_at=100.0 + place) for place, single in enumerate(tables.singles())]
    together = [replace(pair, measured_at=200.0 + place // 2) for place, pair in enumerate(tables.pairs(alone))]
    held = by_time(clean(alone, together))
    for (split,) in (held.pairs, held.singles):
        assert max(row.measured_at or 0 for row in split.known) < min(row.measured_at or 0 for row in split.asked)
        assert abs(len(split.known) - len(split.asked)) <= 2


def test_what_is_measured_of_a_job_after_the_cut_teaches_nothing() -> None:
    """A job took 20% of the device, and after an update, long after the cut, 90%; another first ran after the cut."""
    alone = [
        SingleMeasurement("V100", "a", "a", utilization_pct=20, measured_at=1.0),
        SingleMeasurement("V100", "a", "a", utilization_pct=90, measured_at=50.0),
        SingleMeasurement("V100", "b", "b", utilization_pct=40, measured_at=50.0),
    ]
    together = [PairMeasurement("V100", None, "a", "b", 1.1, 1.1, at) for at in (10.0, 20.0, 30.0, 60.0)]
    (split,) = by_time(clean(alone, together)).pairs

    assert [(pair.a.utilization_pct, pair.b.utilization_pct) for pair in split.known] == [(20, None)] * 2
    assert [(pair.a.utilization_pct, pair.b.utilization_pct) for pair in split.asked] == [(20, 40), (55, 40)]


def test_time_without_times_is_a_sentence() -> None:
    with pytest.raises(BadInput, match="needs the column measured_at, and the pairs have none"):
        by_time(whole())


def test_time_needs_more_than_one_moment_and_leaves_out_rows_without_one() -> None:
    rows = [PairMeasurement("V100", None, "a", "b", 1.1, 1.1, at) for at in (7.0, 7.0, None)]
    with pytest.raises(BadInput, match="all pairs have one measured_at"):
        by_time(clean([], rows))
    held = by_time(clean([], [*rows, PairMeasurement("V100", None, "a", "b", 1.1, 1.1, 9.0)]))
    assert [(len(split.known), len(split.asked)) for split in held.pairs] == [(2, 1)]


def test_three_of_a_jobs_pairs_stay_known() -> None:
    table = whole()
    for split in few_of_a_job(table).pairs:
        jobs = set.intersection(*({pair.a.job, pair.b.job} for pair in split.asked))
        (job,) = jobs
        assert sum(job in (pair.a.job, pair.b.job) for pair in split.known) == 3


def test_the_same_seed_holds_out_the_same() -> None:
    table = whole()
    assert hold_out(table, "pair", 3) == hold_out(table, "pair", 3)
    assert hold_out(table, "pair", 3) != hold_out(table, "pair", 4)
