"""The part of the nightly training about types of device: ratios from the history, carriers from profiles as well.

Never imported by what serves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from gpuq.learn.history.history import History
from gpuq.learn.transfer.fit import LEAST_KINDS, ProfiledJobs, carrier
from gpuq.learn.transfer.profile import OpProfile
from gpuq.learn.transfer.ratio import paces, ratios
from gpuq.learn.transfer.transfer import Carriers, Transfer


def fit_transfer(history: History, profiles: Sequence[OpProfile], quantile: float) -> Transfer:
    """What history and profiles teach; a carrier only for pairs of types with at least `LEAST_KINDS` profiled kinds."""
    found = ratios(history, quantile)
    usable = tuple(one for one in profiles if one.kind and one.device_type and one.step_s and one.ops_us)
    carriers: Carriers = {}
    for anchor, targets in found.items():
        for target in targets:
            measured = _measured(history, usable, anchor, target)
            if len(set(measured.kinds)) >= LEAST_KINDS:
                carriers.setdefault(anchor, {})[target] = carrier(measured, quantile=quantile)
    return Transfer(ratios=found, carriers=carriers, profiles=usable if carriers else ())


def _measured(history: History, profiles: Sequence[OpProfile], anchor: str, target: str) -> ProfiledJobs:
    """The profiles on the anchor of work that was also timed on the target, of the framework with the most of them."""
    rows: dict[str | None, list[tuple[OpProfile, float]]] = {}
    for profile in profiles:
        if profile.device_type == anchor and profile.kind is not None:
            there = paces(history.runs(profile.kind, target)).get((profile.script_sha256, profile.batch_log2))
            if there is not None and there[0] is not None:
                rows.setdefault(profile.framework, []).append((profile, there[0]))
    most = max(rows.values(), key=len, default=[])
    return ProfiledJobs(
        kinds=[profile.kind or "" for profile, _ in most],
        profiles=[profile for profile, _ in most],
        step_s=[profile.step_s or math.nan for profile, _ in most],
        target_s={target: [step_s for _, step_s in most]},
        target_profiles={},
    )
