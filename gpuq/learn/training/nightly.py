"""One nightly training, for daemon and simulator alike: fit a candidate, judge it, and say whether it should serve.

From the attempts that may teach and the serving model come a candidate with its judgement, or the reason why there is none.
No shelf, record or clock is used here, so that the simulator can train in virtual time. The same attempts give the same
result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuq.core.scheduling.limits import Limits
from gpuq.learn.history.outcome import Outcome
from gpuq.learn.history.quarantine import TrainingSet
from gpuq.learn.serving.model import Model
from gpuq.learn.training.score import Judgement, judge
from gpuq.learn.training.train import fit
from gpuq.learn.transfer.profile import OpProfile
from gpuq.settings import Learning

# The newest third of the attempts judges: at most as many as give a stable figure, at least three so that one does not decide.
_HELD_OUT_SHARE = 1 / 3
_LEAST_HELD_OUT = 3
_MOST_HELD_OUT = 3000
# With a larger share of bad rows the record itself is damaged.
_MOST_DAMAGED_SHARE = 0.5


@dataclass(frozen=True)
class NightlyResult:
    """A candidate, its judgement, and the attempts that it was judged on."""

    candidate: Model
    judgement: Judgement
    held_out: Sequence[Outcome]


def train(
    attempts: TrainingSet,
    serving: Model | None,
    learning: Learning,
    limits: Limits,
    profiles: Sequence[OpProfile] = (),
) -> NightlyResult:
    """Fit on the earlier attempts and judge on the held-out ones. `attempts` must have no `obstacle`."""
    earlier, held_out = split(attempts.outcomes)
    candidate = fit(earlier, learning, profiles)
    # A serving model that has seen what now judges (attempts of its last training have left the history since) is no fair rival:
    # then the candidate itself is, which was made from as much as that model may have seen.
    seen = serving is not None and serving.trained_until > earlier[-1].ended_at
    rival = candidate if seen else serving
    return NightlyResult(candidate, judge(earlier, held_out, candidate, rival, learning, limits), held_out)


def split(outcomes: Sequence[Outcome]) -> tuple[Sequence[Outcome], Sequence[Outcome]]:
    """(earlier, held out): the held-out attempts all ended after the earlier ones."""
    count = min(_MOST_HELD_OUT, max(_LEAST_HELD_OUT, round(len(outcomes) * _HELD_OUT_SHARE)))
    return outcomes[:-count], outcomes[-count:]


def obstacle(attempts: TrainingSet, learning: Learning) -> str | None:
    """Why this history cannot train a model, as a sentence for users; None if it can."""
    usable, damaged = len(attempts.outcomes), attempts.damaged
    if usable + damaged and damaged / (usable + damaged) > _MOST_DAMAGED_SHARE:
        reasons = ", ".join(f"{count} {reason}" for reason, count in attempts.left_out.items())
        return f"the history looks damaged: {damaged} of {usable + damaged} finished attempts are unusable ({reasons})"
    least = max(learning.minimum_attempts, 2 * _LEAST_HELD_OUT)
    if usable < least:
        return (
            f"too little history: {usable} finished {'attempt' if usable == 1 else 'attempts'} measured, {least} needed"
        )
    if attempts.misdated / usable > _MOST_DAMAGED_SHARE:
        return (
            f"the history looks damaged: the times of {attempts.misdated} of {usable} finished attempts cannot be right, "
            "so it is unknown which are the latest; check this machine's clock"
        )
    profiles = {(one.kind, one.peak_utilization_pct, one.peak_memory_bytes) for one in attempts.outcomes}
    if len(profiles) == 1:
        return f"constant history: all {usable} attempts measured the same, so there is nothing to learn"
    return None
