"""How long a kind takes on a type of device where it never ran, from how long it takes on one where it did.

With a profile of the job on the anchor and a carrier for the pair of types, the carrier's ratio is used; otherwise the one
ratio of the pair, with its wider bound; None where nothing connects the two types. Only durations are carried: memory and
utilisation on another type do not follow from its speed, so they stay unknown and the job runs alone there first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import msgspec

from gpuq.learn.history.history import History, JobFeatures
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
    """Answers from one `Transfer`; ratios by profile are cached."""

    def __init__(self, transfer: Transfer) -> None:
        self._transfer = transfer
        self._profiles = {
            (profile.kind, profile.device_type, (profile.script_sha256, profile.batch_log2)): profile
            for profile in transfer.profiles
        }
        self._by_profile_kept: dict[tuple[str, Work, str, str], tuple[float, float] | None] = {}
        self._anchors: dict[str, list[str]] = {}
        for anchor, targets in transfer.ratios.items():
            for target in targets:
                self._anchors.setdefault(target, []).append(anchor)

    def duration(self, history: History, kind: str, known: JobFeatures, device_type: str) -> TransferredDuration | None:
        """The duration on `device_type`, carried from the anchor with the narrowest bound; None without an anchor."""
        found = [self._from(history, kind, known, anchor, device_type) for anchor in self._anchors.get(device_type, ())]
        candidates = [one for one in found if one is not None]
        return min(candidates, key=lambda one: (one.duration_p90_s / one.duration_p50_s, one.anchor), default=None)

    def _from(
        self, history: History, kind: str, known: JobFeatures, anchor: str, target: str
    ) -> TransferredDuration | None:
        used, same = history.comparable(kind, anchor, known)
        durations = [run.duration_s for run in used if run.duration_s and not run.shared]
        if not same or not durations:
            return None
        key = (kind, work(known), anchor, target)
        if key not in self._by_profile_kept:
            self._by_profile_kept[key] = self._by_profile(*key)
        by_profile = self._by_profile_kept[key]
        if by_profile is None:
            ratio = self._transfer.ratios[anchor][target]
            point, upper = math.exp(ratio.log), math.exp(ratio.log + ratio.margin)
        else:
            point, upper = by_profile
        return TransferredDuration(
            order_statistic(durations, 0.5) * point, order_statistic(durations, 0.9) * upper, anchor
        )

    def _by_profile(self, kind: str, what: Work, anchor: str, target: str) -> tuple[float, float] | None:
        """(expected, upper) ratio by the job's own profile; None without one, or without a carrier for it."""
        profile = self._profiles.get((kind, anchor, what))
        found = self._transfer.carriers.get(anchor, {}).get(target)
        if profile is None or profile.step_s is None or found is None or found.framework != profile.framework:
            return None
        point, upper = found.ratios([profile], [profile.step_s])[target][0]
        return float(point), float(upper)
