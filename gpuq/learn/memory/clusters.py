"""Groups of kinds with similar resource profiles, and the place of a new kind among them.

`training` makes the clusters; a new kind is placed by its tokens and batch size, in the cluster of its nearest kinds, or
nowhere if none is near enough: a distant neighbour is no evidence.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from gpuq.learn.history.job_features import JobFeatures

# The least similarity of a near kind. With the weights below, the same script with a model of the same family and up to twice the
# batch is near; another script in the same folder, or a script of the same name elsewhere, is not.
NEAR_ENOUGH = 0.4
NEIGHBOURS = 3
# Four doublings of the batch size halve the similarity.
_DOUBLINGS_TO_HALVE = 4.0
# The factor where only one of the two shows its batch size.
_UNKNOWN_BATCH = 0.7
# What a job is made of says more about its needs than who sent it, or which options its script happens to take.
WEIGHTS: Mapping[str, float] = {
    "script": 4.0,
    "model": 3.0,
    "family": 3.0,
    "constructor": 2.0,
    "kind": 3.0,
    "folder": 2.0,
    "project": 2.0,
    "precision": 1.0,
    "framework": 1.0,
    "word": 1.0,
    "option": 0.5,
    "optimizer": 0.5,
    "layer": 0.3,
    "owner": 0.5,
}
# Words in the names of very many scripts.
_SAYS_LITTLE = frozenset(f"script:{word}" for word in ("train", "main", "run", "fit", "test", "job", "script", "start"))
_LITTLE = 0.5


class ClusterMember(msgspec.Struct, frozen=True):
    """One kind in a cluster: what it is compared by, and what it needed. Percent, bytes."""

    kind: str
    tokens: tuple[str, ...]
    batch_log2: float | None
    utilization_pct: float
    memory_bytes: int


class Cluster(msgspec.Struct, frozen=True):
    """Kinds with similar profiles, and bounds for the next kind that belongs to them. Percent, bytes."""

    members: tuple[ClusterMember, ...]
    utilization_upper_pct: float
    memory_typical_bytes: int
    memory_upper_bytes: int


class ClusterIndex:
    """The clusters of one type of device, indexed by token."""

    def __init__(self, clusters: Sequence[Cluster]) -> None:
        self._members = [(cluster, member) for cluster in clusters for member in cluster.members]
        self._batches = np.array([member.batch_log2 for _, member in self._members], dtype=np.float64)
        self._weights = np.array([total_weight(member.tokens) for _, member in self._members], dtype=np.float64)
        postings: dict[str, list[int]] = {}
        for place, (_, member) in enumerate(self._members):
            for token in set(member.tokens):
                postings.setdefault(token, []).append(place)
        self._postings = {token: np.array(places, dtype=np.intp) for token, places in postings.items()}

    def place(self, known: JobFeatures) -> tuple[Cluster, ClusterMember] | None:
        """The cluster with the most similarity among the nearest kinds, and its nearest member; None if none is near enough."""
        near = self._near(known, NEIGHBOURS)
        votes: dict[int, float] = defaultdict(float)
        for i, similarity in near:
            votes[id(self._members[i][0])] += similarity
        winner = max(votes.values(), default=0.0)
        return next((self._members[i] for i, _ in near if votes[id(self._members[i][0])] == winner), None)

    def nearest(self, known: JobFeatures, count: int) -> list[tuple[str, float]]:
        """(kind, similarity 0 to 1) of the kinds near enough to be evidence, the nearest first, at most `count`."""
        return [(self._members[i][1].kind, similarity) for i, similarity in self._near(known, count)]

    def _near(self, known: JobFeatures, count: int) -> list[tuple[int, float]]:
        """(index, similarity): the weighted Jaccard similarity of the tokens, lowered for every doubling between batch sizes."""
        if not self._members or not known.tokens:
            return []
        shared = np.zeros(len(self._members))
        for token in set(known.tokens):
            places = self._postings.get(token)
            if places is not None:
                shared[places] += token_weight(token)
        together = self._weights + total_weight(known.tokens) - shared
        jaccard = shared / np.maximum(together, 1e-9)
        if known.batch_log2 is None:
            similarity = jaccard * np.where(np.isnan(self._batches), 1.0, _UNKNOWN_BATCH)
        else:
            away = np.abs(self._batches - known.batch_log2)
            factor = np.where(np.isnan(away), _UNKNOWN_BATCH, np.exp2(-np.nan_to_num(away) / _DOUBLINGS_TO_HALVE))
            similarity = jaccard * factor
        order = np.argsort(-similarity, kind="stable")[:count]
        return [(int(i), float(similarity[i])) for i in order if similarity[i] >= NEAR_ENOUGH]


def token_weight(token: str) -> float:
    """The weight of a shared token, by where it stood."""
    return _LITTLE if token in _SAYS_LITTLE else WEIGHTS.get(token.partition(":")[0], _LITTLE)


def total_weight(tokens: Sequence[str]) -> float:
    """The weight of all different tokens."""
    return sum(token_weight(token) for token in set(tokens))
