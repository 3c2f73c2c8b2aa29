"""How long a kind takes on a type of device where it never ran, from how long it takes on one where it did.

With a profile of the job on the anchor and a carrier for the pair of types, the carrier's ratio is used; otherwise the one
ratio of the pair, with its wider bound; None where nothing connects the two types. Only durations are carried: memory and
utilisation on another type do not follow from its speed, so they stay unknown and the job runs alone there first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import msgspec

from gpuq.learn.history.history import History
from gpuq.learn.history.job_features import JobFeatures
from gpuq.learn.statistics import order_statistic
from gpuq.learn.transfer.carrier import Carrier
from gpuq.learn.transfer.profile import OpProfile
from gpuq.learn.transfer.ratio import Ratio, Work, work

# Anchor -> target -> what connects them.
Ratios = dict[str, dict[str, Ratio]]
Carriers = dict[str, dict[str, Carrier]]


class Transfer(msgspec.Struct, frozen=True, kw_only=True):
    """What a model holds for this: ratios and carriers per pair of types, and the profiles to carry from."""

    ratios: Ratios = {}
    carriers: Carriers = {}
    profiles: tuple[OpProfile, ...] = ()


@dataclass(frozen=True, slots=True)
class TransferredDuration:
    """Seconds, and the type of device on which they were measured."""

    duration_p50_s: float
    duration_p90_s: float
    anchor: str


class Transfers:
    """Answers from one `Transfer`, whose ratios are cached."""

    def __init__(self, transfer: Transfer) -> None:
        self._transfer = transfer
        self._profiles = {
            (profile.kind, profile.device_type, (profile.script_sha256, profile.batch_log2)): profile
            for profile in transfer.profiles
        }
        self._kept: dict[tuple[str, Work, str, str], tuple[float, float]] = {}
        self._anchors: dict[str, list[str]] = {}
        for anchor, targets in transfer.ratios.items():
            for target in targets:
                self._anchors.setdefault(target, []).append(anchor)

    def duration(self, history: History, kind: str, known: JobFeatures, device_type: str) -> TransferredDuration | None:
        """The duration on `device_type`, carried from the anchor with the narrowest bound; None without an anchor."""
        candidates: list[TransferredDuration] = []
        for anchor in self._anchors.get(device_type, ()):
            used, same = history.comparable(kind, anchor, known)
            durations = [run.duration_s for run in used if run.duration_s and not run.shared]
            if same and durations:
                point, upper = self._ratio(kind, work(known), anchor, device_type)
                half, most = order_statistic(durations, 0.5) * point, order_statistic(durations, 0.9) * upper
                candidates.append(TransferredDuration(half, most, anchor))
        return min(candidates, key=lambda one: (one.duration_p90_s / one.duration_p50_s, one.anchor), default=None)

    def _ratio(self, kind: str, what: Work, anchor: str, target: str) -> tuple[float, float]:
        """(expected, upper): by the job's own profile if there is one and a carrier for it, else the ratio of the types."""
        key = (kind, what, anchor, target)
        if key not in self._kept:
            profile = self._profiles.get((kind, anchor, what))
            carrier = self._transfer.carriers.get(anchor, {}).get(target)
            if profile is None or profile.step_s is None or carrier is None or carrier.framework != profile.framework:
                ratio = self._transfer.ratios[anchor][target]
                self._kept[key] = math.exp(ratio.log), math.exp(ratio.log + ratio.margin)
            else:
                point, upper = carrier.ratios([profile], [profile.step_s])[target][0].tolist()
                self._kept[key] = point, upper
        return self._kept[key]
