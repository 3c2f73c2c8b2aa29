"""Makes a candidate model from finished attempts: clusters of kinds, regressions, pairs, and factors of the bounds.

Never imported by a daemon that serves, since it needs scikit-learn and scipy. The same outcomes give the same model.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

import numpy as np

from gpuq.learn.history.history import UTILIZATION_QUANTILE, History, place_of
from gpuq.learn.history.outcome import Outcome
from gpuq.learn.interference import Interference
from gpuq.learn.interference import fit as interference
from gpuq.learn.interference.profile import observed
from gpuq.learn.memory.clusters import Cluster, ClusterMember
from gpuq.learn.memory.fit import fit_peaks
from gpuq.learn.memory.footprint import LEAST_NETWORKS, Coefficients, MeasuredPeak, usually_off
from gpuq.learn.memory.footprint import fit as fit_layers
from gpuq.learn.serving.model import Calibration, Model, own_level
from gpuq.learn.serving.predictor import MEMORY_QUANTILE, Predictor
from gpuq.learn.statistics import SAME_CLUSTER_MEMORY, SAME_KIND_MEMORY, conformal_rank, order_statistic, upper_bound
from gpuq.learn.training.fair import OWNER_SHARE, fair, within_share
from gpuq.learn.training.kmeans import group
from gpuq.learn.transfer.fit import fit_transfer
from gpuq.learn.transfer.profile import OpProfile
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


def fit(outcomes: Sequence[Outcome], learning: Learning, profiles: Sequence[OpProfile] = ()) -> Model:
    """The candidate from these outcomes, in the order of their ends, and op profiles of their kinds. Needs one outcome."""
    history, quantile = History.from_outcomes(outcomes), learning.quantile
    layers, layers_off = _fit_layers(history, quantile)
    members = sorted(_members(history, outcomes).items())
    return Model(
        trained_until=max(outcome.ended_at for outcome in outcomes),
        attempts=len(outcomes),
        quantile=quantile,
        clusters={device_type: fit_clusters(found, quantile) for device_type, found in members},
        calibration=_calibrate(outcomes, learning),
        transfer=fit_transfer(history, profiles, quantile),
        peaks=fit_peaks(history, quantile),
        layers=layers,
        layers_off=layers_off,
        interference=fit_interference(history, outcomes, quantile),
    )


def _fit_layers(history: History, quantile: float) -> tuple[Coefficients | None, dict[str, float]]:
    """(coefficients of our own, None where too few networks were measured; then how far the shipped ones were off, by type).

    From the latest finished run of each kind whose network's memory terms are known.
    """
    found: dict[str, list[MeasuredPeak]] = defaultdict(list)
    for kind, device_type in sorted(history.kinds()):
        runs = [run for run in history.runs(kind, device_type) if run.whole and run.peak_memory_bytes]
        if runs and runs[-1].known.layers is not None:
            measured = MeasuredPeak(runs[-1].known.layers, device_type, float(runs[-1].peak_memory_bytes or 0))
            found[device_type].append(measured)
    rows = [row for device_type in sorted(found) for row in found[device_type]]
    if len({row.parts.name for row in rows if not row.parts.steps}) >= LEAST_NETWORKS:
        return fit_layers(rows, quantile), {}
    return None, {device_type: usually_off(found[device_type], quantile) for device_type in sorted(found)}


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


def fit_clusters(members: Sequence[ClusterMember], quantile: float) -> tuple[Cluster, ...]:
    """K-means over the standardised profiles (peak utilisation, log memory) of these kinds; the number by the elbow."""
    if not members:
        return ()
    rows = [[member.utilization_pct, math.log(max(member.memory_bytes, 1))] for member in members]
    points = np.array(rows, dtype=np.float64)
    labels = group((points - points.mean(axis=0)) / np.maximum(points.std(axis=0), _LEAST_SPREAD)).labels
    clusters: list[Cluster] = []
    for k in sorted(set(labels)):
        near = tuple(member for member, label in zip(members, labels, strict=True) if label == k)
        memory = [float(member.memory_bytes) for member in near]
        clusters.append(
            Cluster(
                members=near,
                utilization_upper_pct=order_statistic([member.utilization_pct for member in near], quantile),
                memory_typical_bytes=round(order_statistic(memory, MEMORY_QUANTILE)),
                memory_upper_bytes=round(upper_bound(memory, quantile, SAME_CLUSTER_MEMORY)),
            )
        )
    return tuple(clusters)


def _members(history: History, outcomes: Sequence[Outcome]) -> dict[str, list[ClusterMember]]:
    """Device type -> the profile of each kind measured there: the latest kinds within each owner's share, sorted by name."""
    latest = {(outcome.kind, outcome.device_type): outcome for outcome in outcomes}
    found: dict[str, list[ClusterMember]] = defaultdict(list)
    kinds = [key for key in reversed(list(history.kinds())) if key in latest]
    for kind, device_type in within_share(kinds, lambda key: latest[key].owner, OWNER_SHARE):
        runs = [run for run in history.runs(kind, device_type) if run.whole]
        memory = [run.peak_memory_bytes for run in runs if run.peak_memory_bytes is not None]
        utilization = [run.peak_utilization_pct for run in runs if run.peak_utilization_pct is not None]
        if not memory or not utilization or len(found[device_type]) >= MOST_MEMBERS:
            continue
        known = latest[kind, device_type].known
        found[device_type].append(
            ClusterMember(
                kind=kind,
                tokens=known.tokens,
                batch_log2=known.batch_log2,
                utilization_pct=order_statistic(utilization, UTILIZATION_QUANTILE),
                memory_bytes=max(memory),
            )
        )
    return {device_type: sorted(members, key=lambda member: member.kind) for device_type, members in found.items()}


def _calibrate(outcomes: Sequence[Outcome], learning: Learning) -> Calibration:
    """Split conformal: each attempt scored as truth / bound by what was known before it; the quantile of the scores."""
    scores: dict[str, dict[str, deque[float]]] = {
        level: defaultdict(lambda: deque(maxlen=_SCORES_PER_KIND)) for level in ("few", "some", "many", "changed")
    }
    scale = spread(outcomes)
    begun = Model(
        trained_until=0.0, attempts=0, quantile=learning.quantile, clusters={}, calibration=Calibration(scale=scale)
    )
    predictor = Predictor(History(), begun, learning)
    counted = {id(outcome) for outcome in fair(outcomes)}
    for outcome in outcomes:
        if id(outcome) in counted and outcome.whole and outcome.peak_memory_bytes:
            forecast = predictor.forecast_known(outcome.kind, outcome.known, outcome.device_type)
            used, same = predictor.history.comparable(outcome.kind, outcome.device_type, outcome.known)
            if forecast.upper_memory_bytes:
                level = own_level(len(used)) if same else "changed"
                scores[level][outcome.kind].append(outcome.peak_memory_bytes / forecast.upper_memory_bytes)
        # Learned after it was scored, so that no attempt is judged by itself.
        predictor.learn(replace(outcome, forecast=None))
    factors: dict[str, float] = {}
    for level, by_kind in scores.items():
        ordered = sorted(score for found in by_kind.values() for score in found)
        rank = conformal_rank(len(ordered), learning.quantile)
        # Too few scores for a quantile can only widen a bound.
        factor = ordered[rank - 1] if rank is not None else max([1.0, *ordered])
        factors[level] = round(min(100.0, max(_NARROWEST, factor)), 6)
    return Calibration(scale=scale, **factors)


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
