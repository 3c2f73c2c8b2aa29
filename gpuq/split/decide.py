"""One launch from its verdict to its result: split where that is proven or checked, else whole on the first device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuq.errors import BadInput, Failure
from gpuq.split.history import LaunchHistory
from gpuq.split.launch import KernelLaunch, OpenClDevice, judged
from gpuq.split.parts import Result, check, run_parts
from gpuq.split.verdict import Correctness, SplitVerdict

CHECK_EVERY = 20
"""A launch that is not proven is checked again in one of so many runs."""


@dataclass(frozen=True, slots=True)
class SplitOutcome:
    """`how`: "split, proven", "split, checked" or "whole"; `why` in a sentence."""

    result: Result
    how: str
    why: str


def verdict_of(launch: KernelLaunch, devices: Sequence[OpenClDevice], history: LaunchHistory) -> SplitVerdict:
    """The verdict, which a fault of an earlier run turns into a refusal."""
    reason = history.find(launch, devices).quarantined
    if reason is not None:
        judged(launch)  # wrong arguments are an error all the same
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
    """Run a launch. A split that fails is run again whole from its own content, and never split again."""
    if len(devices) < 2:
        raise BadInput("a split needs two devices.", fix="Name two in [[devices]]; sets of a CPU's cores will do.")
    verdict = verdict_of(launch, devices, history)
    if verdict.answer is Correctness.REFUSED:
        return SplitOutcome(_whole(launch, verdict, devices, limit_s), "whole", verdict.reason)
    try:
        if verdict.answer is Correctness.CHECK and (wrong := checked(launch, verdict, devices, history, limit_s)):
            return SplitOutcome(_whole(launch, verdict, devices, limit_s), "whole", wrong)
        entry = history.find(launch, devices)
        result = run_parts(launch, verdict, devices, limit_s=limit_s, speeds=entry.speeds or None)
    except Failure as failure:
        history.keep(launch, devices, quarantined=failure.message)
        return SplitOutcome(_whole(launch, verdict, devices, limit_s), "whole", f"the split failed: {failure.message}")
    history.keep(launch, devices, runs=entry.runs + 1, speeds=result.speeds)
    how = "split, proven" if verdict.answer is Correctness.PROVEN else "split, checked"
    return SplitOutcome(result, how, verdict.reason)


def _whole(launch: KernelLaunch, verdict: SplitVerdict, devices: Sequence[OpenClDevice], limit_s: float) -> Result:
    """Run whole on the first device that can."""
    try:
        return run_parts(launch, verdict, devices[:1], limit_s=limit_s)
    except Failure as first:
        try:
            return run_parts(launch, verdict, devices[1:2], limit_s=limit_s)
        except Failure:
            raise first from None
