"""Makes a candidate model from finished attempts: clusters of kinds, and how much wider each bound must be.

Arrives: outcomes in the order of their ends. Leaves: a `Model`. The only module that uses scikit-learn, and only inside
the function that needs it; never imported by a daemon that serves. The same outcomes give the same model.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from gpuq.learn.clusters import Cluster, Member, Places
from gpuq.learn.history import History, Known
from gpuq.learn.model import Calibration, Model
from gpuq.learn.outcome import Outcome
from gpuq.learn.peaks import SAME_CLUSTER_MEMORY, conformal_rank, order_statistic, upper_bound
from gpuq.learn.predictor import MEMORY_QUANTILE, UTILIZATION_QUANTILE, Predictor
from gpuq.settings import Learning

MOST_CLUSTERS = 8
# Kinds per type of device that a model keeps: the latest ones. Ten thousand questions stay under a second with that
# many.
MOST_MEMBERS = 1000
# Another cluster must take away this share of the distortion of one cluster, or the elbow is reached.
_ELBOW_GAIN = 0.10
# Profiles closer than this are alike: without a floor, standardising would turn noise into clusters.
_LEAST_SPREAD = np.array([5.0, math.log(1.1)])
# One kind that floods the queue must not decide how wide everybody's bounds are.
_SCORES_PER_KIND = 16
# Bounds narrow by a tenth in one night at most: too wide costs some sharing, too narrow costs a job.
_NARROWEST = 0.9

Points = np.ndarray[tuple[int, int], np.dtype[np.float64]]


def fit(outcomes: Sequence[Outcome], learning: Learning) -> Model:
    """The candidate model that these outcomes give. Needs at least one outcome."""
    history = History.from_outcomes(outcomes)
    members = _members(history, outcomes)
    clusters = {device_type: fit_clusters(found, learning.quantile) for device_type, found in sorted(members.items())}
    return Model(
        trained_until=max(outcome.ended_at for outcome in outcomes),
        attempts=len(outcomes),
        quantile=learning.quantile,
        clusters=clusters,
        calibration=_calibrate(outcomes, clusters, learning),
    )


def fit_clusters(members: Sequence[Member], quantile: float) -> tuple[Cluster, ...]:
    """K-means over the standardised profiles (peak utilisation, log memory) of these kinds; the count by the elbow."""
    if not members:
        return ()
    points = _profiles(members)
    labels = _label(points)
    groups = [
        [member for member, label in zip(members, labels, strict=True) if label == k] for k in sorted(set(labels))
    ]
    return tuple(_cluster(group, quantile) for group in groups)


def elbow(distortions: Sequence[float]) -> int:
    """The smallest count after which one more cluster takes away less than a tenth of the distortion of one."""
    for count, (here, following) in enumerate(pairwise(distortions), start=1):
        if here - following < _ELBOW_GAIN * distortions[0] or here <= 0:
            return count
    return len(distortions)


def _members(history: History, outcomes: Sequence[Outcome]) -> dict[str, list[Member]]:
    """Device type -> the profile of each kind that was measured there, the latest kinds, sorted by name."""
    latest = {(outcome.kind, outcome.device_type): outcome for outcome in outcomes}
    found: dict[str, list[Member]] = defaultdict(list)
    for kind, device_type in reversed(list(history.kinds())):
        member = _member(history, latest[kind, device_type])
        if member is not None and len(found[device_type]) < MOST_MEMBERS:
            found[device_type].append(member)
    return {device_type: sorted(members, key=lambda member: member.kind) for device_type, members in found.items()}


def _member(history: History, outcome: Outcome) -> Member | None:
    runs = [run for run in history.runs(outcome.kind, outcome.device_type) if run.whole]
    memory = [run.peak_memory_bytes for run in runs if run.peak_memory_bytes is not None]
    utilization = [run.peak_utilization_pct for run in runs if run.peak_utilization_pct is not None]
    if not memory or not utilization:
        return None
    known = Known.of(outcome.features)
    return Member(
        kind=outcome.kind,
        tokens=known.tokens,
        batch_log2=known.batch_log2,
        utilization_pct=order_statistic(utilization, UTILIZATION_QUANTILE),
        memory_bytes=max(memory),
    )


def _profiles(members: Sequence[Member]) -> Points:
    rows = [[member.utilization_pct, math.log(max(member.memory_bytes, 1))] for member in members]
    points = np.array(rows, dtype=np.float64)
    return np.asarray((points - points.mean(axis=0)) / np.maximum(points.std(axis=0), _LEAST_SPREAD))


def _label(points: Points) -> list[int]:
    from sklearn.cluster import KMeans  # noqa: PLC0415 - a second and 60 MiB, for those who train only

    different = len(np.unique(points, axis=0))
    most = max(1, min(MOST_CLUSTERS, len(points) - 1, different))
    fits = [KMeans(n_clusters=k, n_init=10, random_state=0).fit(points) for k in range(1, most + 1)]
    chosen = fits[elbow([float(found.inertia_) for found in fits]) - 1]
    return [int(label) for label in chosen.labels_]


def _cluster(members: Sequence[Member], quantile: float) -> Cluster:
    memory = [float(member.memory_bytes) for member in members]
    return Cluster(
        members=tuple(members),
        utilization_upper_pct=order_statistic([member.utilization_pct for member in members], quantile),
        memory_typical_bytes=round(order_statistic(memory, MEMORY_QUANTILE)),
        memory_upper_bytes=round(upper_bound(memory, quantile, SAME_CLUSTER_MEMORY)),
    )


def _calibrate(
    outcomes: Sequence[Outcome], clusters: dict[str, tuple[Cluster, ...]], learning: Learning
) -> Calibration:
    """Split conformal.

    Each attempt scored as truth / bound by what was known before it, and the quantile of the scores.
    """
    own: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=_SCORES_PER_KIND))
    changed: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=_SCORES_PER_KIND))
    predictor = Predictor(History(), None, learning)
    for outcome in outcomes:
        forecast = predictor.forecast_for(outcome.kind, outcome.features, outcome.device_type)
        _, same = predictor.history.comparable(outcome.kind, outcome.device_type, Known.of(outcome.features))
        if outcome.whole and outcome.peak_memory_bytes and forecast.upper_memory_bytes:
            (own if same else changed)[outcome.kind].append(outcome.peak_memory_bytes / forecast.upper_memory_bytes)
        predictor.learn(outcome)
    return Calibration(
        own=_factor(own, learning.quantile),
        changed=_factor(changed, learning.quantile),
        cluster=_factor(_cluster_scores(clusters, learning.quantile), learning.quantile),
    )


def _cluster_scores(clusters: dict[str, tuple[Cluster, ...]], quantile: float) -> dict[str, deque[float]]:
    """Each kind's memory over the bound that it would get as a new kind: from its cluster's other kinds."""
    scores: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=_SCORES_PER_KIND))
    for found in clusters.values():
        places = Places(found)
        for member in (member for cluster in found for member in cluster.members):
            known = Known(batch_log2=member.batch_log2, tokens=member.tokens)
            placed = places.place(known, leave_out=member.kind)
            others = [] if placed is None else [m for m in placed.cluster.members if m.kind != member.kind]
            if others:
                bound = upper_bound([float(other.memory_bytes) for other in others], quantile, SAME_CLUSTER_MEMORY)
                scores[member.kind].append(member.memory_bytes / max(bound, 1.0))
    return scores


def _factor(scores: dict[str, deque[float]], quantile: float) -> float:
    """What the bound must be multiplied with so that it holds as often as it should.

    Too few scores can only widen it.
    """
    ordered = sorted(score for kind in scores.values() for score in kind)
    if not ordered:
        return 1.0
    rank = conformal_rank(len(ordered), quantile)
    factor = ordered[rank - 1] if rank is not None else max(1.0, ordered[-1])
    return round(min(100.0, max(_NARROWEST, factor)), 6)
