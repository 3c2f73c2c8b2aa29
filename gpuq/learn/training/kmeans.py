"""K-means with the number of clusters at the elbow, the one way in which gpuq groups profiles.

The same points give the same labels. Needs scikit-learn (the `train` extra), imported where it is used; a daemon that serves
does not call this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

MOST_CLUSTERS = 8
# Another cluster must take away this share of the distortion of one cluster, or the elbow is reached.
ELBOW_GAIN = 0.10
# Mean squared distance, in standardised units, under which all points are one cluster.
_ALIKE = 0.25

Points = np.ndarray[tuple[int, int], np.dtype[np.float64]]


@dataclass(frozen=True, slots=True)
class Grouping:
    """Labels from 0, one per point; `distortions[k - 1]` is the sum of squared distances of k clusters; one row of `centres`
    per label."""

    labels: tuple[int, ...]
    distortions: tuple[float, ...]
    centres: Points


def group(points: Points, *, whole_curve: bool = False) -> Grouping:
    """K-means of standardised points, with the number of clusters at the elbow, at most `MOST_CLUSTERS`. Needs one point.

    The distortions end where the elbow is certain, unless the `whole_curve` is wanted. The labels do not depend on that.
    """
    from sklearn.cluster import KMeans  # takes a second and 60 MiB, only when training

    different = len(np.unique(points, axis=0))
    most = max(1, min(MOST_CLUSTERS, len(points) - 1, different))
    fits: list[Any] = []
    distortions: list[float] = []
    count = 1
    for clusters in range(1, most + 1):
        fits.append(KMeans(n_clusters=clusters, n_init=10, random_state=0).fit(points))
        distortions.append(float(fits[-1].inertia_))
        alike = distortions[0] < _ALIKE * len(points)
        count = 1 if alike else elbow(distortions)
        if (alike or count < clusters) and not whole_curve:
            break
    chosen = fits[count - 1]
    labels = tuple(int(label) for label in chosen.labels_)
    return Grouping(labels, tuple(distortions), np.asarray(chosen.cluster_centers_))


def elbow(distortions: Sequence[float]) -> int:
    """The smallest number of clusters after which one more removes less than a tenth of the distortion of one cluster."""
    for count, (here, following) in enumerate(pairwise(distortions), start=1):
        if here - following < ELBOW_GAIN * distortions[0] or here <= 0:
            return count
    return len(distortions)
