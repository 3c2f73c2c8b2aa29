"""Clusters by all columns together, numbered by how much of the device they use."""

from __future__ import annotations

import pytest

from gpuq.lab.characterize.groups import cluster
from gpuq.lab.characterize.synthetic import SyntheticRow
from gpuq.lab.characterize.table import FeatureTable
from tests.lab.characterize.tables import row, table


def heaps() -> FeatureTable:
    levels = {"busy": (90.0, 9000.0), "idle": (5.0, 500.0), "middle": (50.0, 5000.0)}
    return table(
        [
            row(name, 2.0**i, util=util + i / 10, memory=memory + i)
            for name, (util, memory) in levels.items()
            for i in range(4)
        ]
    )


def test_like_jobs_share_a_cluster_and_the_least_used_is_the_first():
    found = cluster(heaps(), (), ("util", "memory"))
    assert found is not None
    assert [{member.series for member in group.members} for group in found.found.groups] == [
        {"idle"},
        {"middle"},
        {"busy"},
    ]
    assert [group.number for group in found.found.groups] == [1, 2, 3]
    assert found.found.groups[0].centre["util"] == pytest.approx(5.15)


def test_synthetic_rows_are_clustered_with_the_collected_ones_and_marked():
    made = (
        SyntheticRow("busy", 3.0, {"util": 90.0, "memory": 9000.0, "batch": 3.0}),
        SyntheticRow("busy", 6.0, {"util": 1.0}),
    )
    found = cluster(heaps(), made, ("util", "memory"))
    assert found is not None
    members = found.found.groups[2].members
    assert [member.batch_size for member in members if member.synthetic] == [3.0]


def test_any_profile_finds_its_nearest_cluster():
    found = cluster(heaps(), (), ("util", "memory"))
    assert found is not None
    assert found.cluster({"util": 80.0, "memory": 8000.0}) == 3
    assert found.cluster({"util": 0.0, "memory": 100.0, "batch": 4.0}) == 1
    assert found.cluster({"util": 80.0}) is None


def test_a_column_that_few_rows_know_does_not_cost_the_others():
    rows = [*heaps().rows, row("new", 2.0, util=50.0, memory=None)]
    found = cluster(table(rows), (), ("util", "memory", "power"))
    assert found is not None
    assert found.found.columns == ("util", "memory")
    assert found.found.left_out == 1


def test_batch_sizes_count_by_their_doublings():
    rows = [row("net", 2.0**i, util=50.0, memory=1.0) for i in (0, 0, 0, 1, 1, 1, 10, 10, 10)]
    found = cluster(table(rows), (), ("util", "batch"))
    assert found is not None
    assert len(found.found.groups) == 2
    assert found.cluster({"batch": 4.0}) == found.cluster({"batch": 1.0})


def test_nothing_to_go_by_is_no_cluster():
    assert cluster(table([]), (), ("util",)) is None
    assert cluster(heaps(), (), ()) is None
    assert cluster(table([row("a", 1.0, util=5.0), row("b", 1.0, util=5.0)]), (), ("util",)) is None
