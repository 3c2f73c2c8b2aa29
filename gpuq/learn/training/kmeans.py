"""K-means whose count the elbow chooses: the one way in which gpuq groups profiles.

Arrives: standardised points, one row each. Leaves: a label for each point, the distortion (sum of squared distances to
the nearest centre) of every count tried, and the centres. The same points give the same labels. Needs scikit-learn (the
`train` extra), imported where it is used; a daemon that serves never calls this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

MOST_CLUSTERS = 8
# Another cluster must take away this share of the distortion of one cluster, or the elbow is reached.
ELBOW_GAIN = 0.10
# Mean squared distance, in standardised units, under which all points are one cluster.
_ALIKE = 0.25

Points = np.ndarray[tuple[int, int], np.dtype[np.float64]]


@dataclass(frozen=True, slots=True)
class Grouping:
    """Labels from 0, one a point; `distortions[k - 1]` is that of k clusters; `centres` has a row for each label."""

    labels: tuple[int, ...]
    distortions: tuple[float, ...]
    centres: Points


def group(points: Points) -> Grouping:
    """K-means for one to `MOST_CLUSTERS` clusters, and the count at the elbow. Needs at least one point."""
    from sklearn.cluster import KMeans  # a second and 60 MiB, for those who train only

    different = len(np.unique(points, axis=0))
    most = max(1, min(MOST_CLUSTERS, len(points) - 1, different))
    fits = [KMeans(n_clusters=k, n_init=10, random_state=0).fit(points) for k in range(1, most + 1)]
    distortions = tuple(float(found.inertia_) for found in fits)
    alike = distortions[0] < _ALIKE * len(points)
    chosen = fits[0 if alike else elbow(distortions) - 1]
    return Grouping(tuple(int(label) for label in chosen.labels_), distortions, np.asarray(chosen.cluster_centers_))


def elbow(distortions: Sequence[float]) -> int:
    """The smallest count after which one more cluster takes away less than a tenth of the distortion of one."""
    for count, (here, following) in enumerate(pairwise(distortions), start=1):
        if here - following < ELBOW_GAIN * distortions[0] or here <= 0:
            return count
    return len(distortions)
