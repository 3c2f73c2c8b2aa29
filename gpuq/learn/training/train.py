"""Makes a candidate model from finished attempts: clusters of kinds, regressions, pairs, and factors of the bounds.

Never imported by a daemon that serves, since it needs scikit-learn and scipy. The same outcomes give the same model.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

import numpy as np

from gpuq.learn.history.history import UTILIZATION_QUANTILE, History, JobFeatures, place_of
from gpuq.learn.history.outcome import Outcome
from gpuq.learn.interference import Interference
from gpuq.learn.interference import fit as interference
from gpuq.learn.interference.profile import observed
from gpuq.learn.memory.fit import fit_peaks
from gpuq.learn.memory.footprint import LEAST_NETWORKS, Coefficients, MeasuredPeak, usually_off
from gpuq.learn.memory.footprint import fit as fit_layers
from gpuq.learn.serving.model import Calibration, Model, own_level
from gpuq.learn.serving.predictor import MEMORY_QUANTILE, Predictor
from gpuq.learn.statistics import SAME_CLUSTER_MEMORY, SAME_KIND_MEMORY, conformal_rank, order_statistic, upper_bound
from gpuq.learn.training.clusters import Cluster, ClusterMember
from gpuq.learn.training.fair import OWNER_SHARE, fair, within_share
from gpuq.learn.training.kmeans import Points, group
from gpuq.learn.transfer.profile import OpProfile
from gpuq.learn.transfer.train import fit_transfer
from gpuq.settings import Learning

# Kinds per type of device that a model keeps, the latest ones: with them, ten thousand questions take less than a second.
MOST_MEMBERS = 1000
# A floor of the standard deviations: without it, standardising would turn noise into clusters.
_LEAST_SPREAD = np.array([5.0, math.log(1.1)])
# Scores kept per kind, so that one kind with very many runs does not decide all bounds.
_SCORES_PER_KIND = 16
# Bounds narrow by at most a tenth per training: too wide costs some sharing, too narrow costs a job.
_NARROWEST = 0.9
# Squared log deviations are capped at this (a factor of e): a run further off is an outlier.
_WILDEST = 1.0
# With fewer repeated runs than this the prior of the spread is better.
_LEAST_REPEATS = 19

Scores = dict[str, deque[float]]


def fit(outcomes: Sequence[Outcome], learning: Learning, profiles: Sequence[OpProfile] = ()) -> Model:
    """The candidate from these outcomes, in the order of their ends, and op profiles of their kinds. Needs one outcome."""
    history = History.from_outcomes(outcomes)
    members = _members(history, outcomes)
    clusters = {device_type: fit_clusters(found, learning.quantile) for device_type, found in sorted(members.items())}
    rows = _with_layers(history)
    layers = _layers(rows, learning.quantile)
    return Model(
        trained_until=max(outcome.ended_at for outcome in outcomes),
        attempts=len(outcomes),
        quantile=learning.quantile,
        clusters=clusters,
        calibration=_calibrate(outcomes, learning),
        transfer=fit_transfer(history, profiles, learning.quantile),
        peaks=fit_peaks(history, learning.quantile),
        layers=layers,
        layers_off={} if layers is not None else _layers_off(rows, learning.quantile),
        interference=fit_interference(history, outcomes, learning.quantile),
    )


def fit_interference(history: History, outcomes: Sequence[Outcome], quantile: float) -> dict[str, Interference]:
    """Place (see `history.place_of`) -> what the pairs measured there teach."""
    types = {place_of(outcome.device_type, outcome.sharing): outcome.device_type for outcome in outcomes}
    found: dict[str, Interference] = {}
    for where, slowdowns in sorted(history.all_slowdowns().items()):
        kinds = {kind for pair in slowdowns for kind in pair}
        profiles = {kind: observed(kind, history.runs(kind, types[where])) for kind in sorted(kinds)}
        learned = interference.fit(profiles, slowdowns, quantile)
        if learned is not None:
            found[where] = learned
    return found


def _with_layers(history: History) -> dict[str, list[MeasuredPeak]]:
    """Device type -> the latest finished run of each kind whose network's memory terms are known."""
    found: dict[str, list[MeasuredPeak]] = defaultdict(list)
    for kind, device_type in sorted(history.kinds()):
        runs = [run for run in history.runs(kind, device_type) if run.whole and run.peak_memory_bytes]
        if runs and runs[-1].known.layers is not None:
            measured = MeasuredPeak(runs[-1].known.layers, device_type, float(runs[-1].peak_memory_bytes or 0))
            found[device_type].append(measured)
    return found


def _layers(rows: Mapping[str, Sequence[MeasuredPeak]], quantile: float) -> Coefficients | None:
    """Coefficients of networks' memory fitted here; None with fewer networks than `LEAST_NETWORKS`."""
    found = [row for device_type in sorted(rows) for row in rows[device_type]]
    networks = {row.parts.name for row in found if not row.parts.steps}
    return fit_layers(found, quantile) if len(networks) >= LEAST_NETWORKS else None


def _layers_off(rows: Mapping[str, Sequence[MeasuredPeak]], quantile: float) -> dict[str, float]:
    """Device type -> how far sums with the shipped coefficients were off. Not needed for coefficients of our own, whose
    margins come from networks left out."""
    return {device_type: usually_off(found, quantile) for device_type, found in sorted(rows.items())}


def fit_clusters(members: Sequence[ClusterMember], quantile: float) -> tuple[Cluster, ...]:
    """K-means over the standardised profiles (peak utilisation, log memory) of these kinds; the number by the elbow."""
    if not members:
        return ()
    labels = group(_profiles(members)).labels
    groups = [
        [member for member, label in zip(members, labels, strict=True) if label == k] for k in sorted(set(labels))
    ]
    return tuple(_cluster(group, quantile) for group in groups)


def _members(history: History, outcomes: Sequence[Outcome]) -> dict[str, list[ClusterMember]]:
    """Device type -> the profile of each kind measured there: the latest kinds within each owner's share, sorted by name."""
    latest = {(outcome.kind, outcome.device_type): outcome for outcome in outcomes}
    found: dict[str, list[ClusterMember]] = defaultdict(list)
    kinds = [key for key in reversed(list(history.kinds())) if key in latest]
    for kind, device_type in within_share(kinds, lambda key: latest[key].owner, OWNER_SHARE):
        member = _member(history, latest[kind, device_type])
        if member is not None and len(found[device_type]) < MOST_MEMBERS:
            found[device_type].append(member)
    return {device_type: sorted(members, key=lambda member: member.kind) for device_type, members in found.items()}


def _member(history: History, outcome: Outcome) -> ClusterMember | None:
    runs = [run for run in history.runs(outcome.kind, outcome.device_type) if run.whole]
    memory = [run.peak_memory_bytes for run in runs if run.peak_memory_bytes is not None]
    utilization = [run.peak_utilization_pct for run in runs if run.peak_utilization_pct is not None]
    if not memory or not utilization:
        return None
    known = JobFeatures.of(outcome.features)
    return ClusterMember(
        kind=outcome.kind,
        tokens=known.tokens,
        batch_log2=known.batch_log2,
        utilization_pct=order_statistic(utilization, UTILIZATION_QUANTILE),
        memory_bytes=max(memory),
    )


def _profiles(members: Sequence[ClusterMember]) -> Points:
    rows = [[member.utilization_pct, math.log(max(member.memory_bytes, 1))] for member in members]
    points = np.array(rows, dtype=np.float64)
    return np.asarray((points - points.mean(axis=0)) / np.maximum(points.std(axis=0), _LEAST_SPREAD))


def _cluster(members: Sequence[ClusterMember], quantile: float) -> Cluster:
    memory = [float(member.memory_bytes) for member in members]
    return Cluster(
        members=tuple(members),
        utilization_upper_pct=order_statistic([member.utilization_pct for member in members], quantile),
        memory_typical_bytes=round(order_statistic(memory, MEMORY_QUANTILE)),
        memory_upper_bytes=round(upper_bound(memory, quantile, SAME_CLUSTER_MEMORY)),
    )


def _calibrate(outcomes: Sequence[Outcome], learning: Learning) -> Calibration:
    """Split conformal: each attempt scored as truth / bound by what was known before it; the quantile of the scores."""
    scores: dict[str, Scores] = {level: _no_scores() for level in ("few", "some", "many", "changed")}
    scale = spread(outcomes)
    begun = Model(
        trained_until=0.0, attempts=0, quantile=learning.quantile, clusters={}, calibration=Calibration(scale=scale)
    )
    predictor = Predictor(History(), begun, learning)
    counted = {id(outcome) for outcome in fair(outcomes)}
    for outcome in outcomes:
        if id(outcome) in counted and outcome.whole and outcome.peak_memory_bytes:
            forecast = predictor.forecast_for(outcome.kind, outcome.features, outcome.device_type)
            known = JobFeatures.of(outcome.features)
            used, same = predictor.history.comparable(outcome.kind, outcome.device_type, known)
            if forecast.upper_memory_bytes:
                level = own_level(len(used)) if same else "changed"
                scores[level][outcome.kind].append(outcome.peak_memory_bytes / forecast.upper_memory_bytes)
        predictor.learn(replace(outcome, forecast=None))
    return Calibration(scale=scale, **{level: _factor(found, learning.quantile) for level, found in scores.items()})


def spread(outcomes: Sequence[Outcome]) -> float:
    """The pooled standard deviation of the logs of one kind's peak memory from run to run; the prior where few repeat."""
    latest: dict[tuple[str, str, str | None], deque[float]] = defaultdict(lambda: deque(maxlen=_SCORES_PER_KIND))
    for outcome in outcomes:
        if outcome.whole and outcome.peak_memory_bytes:
            key = (outcome.kind, outcome.device_type, outcome.script_sha256)
            latest[key].append(math.log(outcome.peak_memory_bytes))
    freedom = sum(len(logs) - 1 for logs in latest.values())
    if freedom < _LEAST_REPEATS:
        return SAME_KIND_MEMORY.scale
    squares = math.fsum(min(_WILDEST, (value - fmean(logs)) ** 2) for logs in latest.values() for value in logs)
    return round(min(2.0, max(SAME_KIND_MEMORY.scale / 2, math.sqrt(squares / freedom))), 6)


def _no_scores() -> Scores:
    return defaultdict(lambda: deque(maxlen=_SCORES_PER_KIND))


def _factor(scores: Scores, quantile: float) -> float:
    """The factor that makes a bound hold as often as promised. Too few scores can only widen it."""
    ordered = sorted(score for kind in scores.values() for score in kind)
    if not ordered:
        return 1.0
    rank = conformal_rank(len(ordered), quantile)
    factor = ordered[rank - 1] if rank is not None else max(1.0, ordered[-1])
    return round(min(100.0, max(_NARROWEST, factor)), 6)
