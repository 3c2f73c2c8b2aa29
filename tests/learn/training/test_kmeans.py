"""The elbow, and reproducible groups."""

from __future__ import annotations

import numpy as np
import pytest

from gpuq.learn.training.kmeans import MOST_CLUSTERS, elbow, group


@pytest.mark.parametrize(
    ("distortions", "count"),
    [([10.0], 1), ([10.0, 9.5, 9.4], 1), ([10.0, 2.0, 1.9, 1.8], 2), ([10.0, 6.0, 1.0, 0.9], 3), ([0.0, 0.0], 1)],
)
def test_elbow_is_where_another_cluster_gains_less_than_a_tenth(distortions: list[float], count: int):
    assert elbow(distortions) == count


def test_three_separate_groups_are_three_clusters_with_their_centres():
    heaps = [(-1.2, -1.2), (0.0, 1.3), (1.2, 0.0)]
    points = np.array([(x + dx, y) for x, y in heaps for dx in (-0.01, 0.0, 0.01)])
    found = group(points)
    assert len(set(found.labels)) == 3
    assert sorted(np.round(found.centres, 6).tolist()) == sorted(map(list, heaps))
    assert group(points).labels == found.labels
    assert list(found.distortions) == sorted(found.distortions, reverse=True)


@pytest.mark.parametrize("spread", [0.01, 0.3, 3.0])
def test_the_curve_ends_beyond_the_elbow_unless_all_of_it_is_wanted(spread: float):
    chance = np.random.default_rng(0)
    points = np.concatenate([chance.normal(centre, spread, (8, 2)) for centre in (-2.0, 0.0, 2.0)])
    found, whole = group(points), group(points, whole_curve=True)
    assert found.labels == whole.labels
    assert found.distortions == whole.distortions[: max(found.labels) + 2]
    assert len(whole.distortions) == MOST_CLUSTERS


def test_close_points_are_one_cluster():
    assert group(np.array([[0.1, 0.0], [0.0, 0.1], [0.0, 0.0]])).labels == (0, 0, 0)


def test_a_single_point_is_its_own_cluster():
    assert group(np.array([[3.0, 4.0]])).labels == (0,)
