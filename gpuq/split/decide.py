"""One launch from its verdict to its result: split where that is proven or checked, else whole on the first device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuq.errors import BadInput, Failure
from gpuq.split.history import LaunchHistory
from gpuq.split.launch import KernelFault, KernelLaunch, OpenClDevice, compiled, judged
from gpuq.split.parts import Result, check, run_parts
from gpuq.split.verdict import Correctness, SplitVerdict

CHECK_EVERY = 20
"""A launch that is not proven is checked again in one of so many runs, and one that is faster whole is split again."""


@dataclass(frozen=True, slots=True)
class SplitOutcome:
    """`how`: "split, proven", "split, checked" or "whole"; `why` in a sentence."""

    result: Result
    how: str
    why: str


def verdict_of(launch: KernelLaunch, devices: Sequence[OpenClDevice], history: LaunchHistory) -> SplitVerdict:
    """The verdict on a compiled launch, which a fault of an earlier run turns into a refusal."""
    reason = history.find(launch, devices).quarantined
    if reason is not None:
        return SplitVerdict(Correctness.REFUSED, f"an earlier split of this launch failed: {reason}")
    return judged(launch)


def checked(
    launch: KernelLaunch, verdict: SplitVerdict, devices: Sequence[OpenClDevice], history: LaunchHistory, limit_s: float
) -> str | None:
    """Check a launch that is not proven, unless that was done lately. Gives what is wrong with a split, or None."""
    entry = history.find(launch, devices)
    if entry.checked_at is not None and entry.runs - entry.checked_at < CHECK_EVERY:
        return None
    wrong = check(launch, verdict, devices, limit_s=limit_s)
    history.keep(launch, devices, checked_at=None if wrong else entry.runs, quarantined=wrong)
    return wrong


def run(
    launch: KernelLaunch, devices: Sequence[OpenClDevice], history: LaunchHistory, *, limit_s: float
) -> SplitOutcome:
    """Run a launch. A split that fails is run again whole from its own content; after a KernelFault it is not split again."""
    if len(devices) < 2:
        raise BadInput("a split needs two devices.", fix="Name two in [[devices]]; sets of a CPU's cores will do.")
    launch = compiled(launch, devices)
    verdict = verdict_of(launch, devices, history)
    if verdict.answer is Correctness.REFUSED:
        return SplitOutcome(_whole(launch, verdict, devices, limit_s), "whole", verdict.reason)
    entry = history.find(launch, devices)
    if entry.whole_on is not None and (entry.runs + 1) % CHECK_EVERY:
        history.keep(launch, devices, runs=entry.runs + 1)
        result = _whole(launch, verdict, devices, limit_s, entry.whole_on)
        return SplitOutcome(result, "whole", "the better device alone was faster than the last split")
    try:
        if verdict.answer is Correctness.CHECK and (wrong := checked(launch, verdict, devices, history, limit_s)):
            return SplitOutcome(_whole(launch, verdict, devices, limit_s), "whole", wrong)
        result = run_parts(launch, verdict, devices, limit_s=limit_s, speeds=entry.speeds or None)
    except Failure as failure:
        if isinstance(failure, KernelFault):  # not a want of room or of time, which may be over tomorrow
            history.keep(launch, devices, quarantined=failure.message)
        return SplitOutcome(_whole(launch, verdict, devices, limit_s), "whole", f"the split failed: {failure.message}")
    known = entry.speeds or (None,) * len(devices)
    speeds = tuple(new or old for new, old in zip(result.speeds, known, strict=True))
    whole_on = faster_alone(launch, verdict, devices, result)
    history.keep(launch, devices, runs=entry.runs + 1, speeds=speeds, whole_on=whole_on)
    how = "split, proven" if verdict.answer is Correctness.PROVEN else "split, checked"
    return SplitOutcome(result, how, verdict.reason)


def faster_alone(
    launch: KernelLaunch, verdict: SplitVerdict, devices: Sequence[OpenClDevice], result: Result
) -> int | None:
    """The device that would have taken less time for the whole, by the speeds in this run: of short launches, and of those whose
    copies take long to merge. None with lent cores: how long a launch has them differs from run to run."""
    if any(one.lent for one in devices) or None in result.speeds:
        return None
    alone = [launch.range.groups(verdict.dimension or 0) / speed for speed in result.speeds if speed]
    return alone.index(min(alone)) if min(alone) < result.seconds else None


def _whole(
    launch: KernelLaunch, verdict: SplitVerdict, devices: Sequence[OpenClDevice], limit_s: float, on: int = 0
) -> Result:
    """Run whole on this device; on the next one if that fails."""
    try:
        return run_parts(launch, verdict, devices[on : on + 1], limit_s=limit_s)
    except Failure as first:
        other = (on + 1) % len(devices)
        try:
            return run_parts(launch, verdict, devices[other : other + 1], limit_s=limit_s)
        except Failure:
            raise first from None
