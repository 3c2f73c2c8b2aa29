"""One night's training, as the daemon and the simulator both do it: fit a candidate, judge it, say whether it should serve.

Arrives: the attempts that may teach, oldest end first, and the model that serves. Leaves: a candidate with its judgement, or why
there is none. Pure: knows no shelf, no record and no clock. The same attempts give the same candidate and the same judgement.
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

# The newest third of the attempts judges, but no more than say enough; at least three, or one would decide.
_HELD_OUT_SHARE = 1 / 3
_LEAST_HELD_OUT = 3
_MOST_HELD_OUT = 3000
# More bad rows than this, and something is wrong with the record itself.
_MOST_DAMAGED_SHARE = 0.5


@dataclass(frozen=True)
class TrainingResult:
    """A candidate, what it was judged to be, and the attempts that judged it."""

    candidate: Model
    judgement: Judgement
    held_out: Sequence[Outcome]


def train(
    attempts: TrainingSet,
    serving: Model | None,
    learning: Learning,
    limits: Limits,
    profiles: Sequence[OpProfile] = (),
) -> TrainingResult:
    """Fit and judge. `attempts` must have no `obstacle`."""
    earlier, held_out = split(attempts.outcomes)
    candidate = fit(earlier, learning, profiles)
    rival = _rival(serving, candidate, earlier)
    return TrainingResult(candidate, judge(earlier, held_out, candidate, rival, learning, limits), held_out)


def split(outcomes: Sequence[Outcome]) -> tuple[Sequence[Outcome], Sequence[Outcome]]:
    """(earlier, held out): the held-out ones all ended after the earlier ones."""
    count = min(_MOST_HELD_OUT, max(_LEAST_HELD_OUT, round(len(outcomes) * _HELD_OUT_SHARE)))
    return outcomes[:-count], outcomes[-count:]


def obstacle(attempts: TrainingSet, learning: Learning) -> str | None:
    """Why this history cannot train a model; None if it can."""
    usable, damaged = len(attempts.outcomes), attempts.damaged
    if usable + damaged and damaged / (usable + damaged) > _MOST_DAMAGED_SHARE:
        reasons = ", ".join(f"{count} {reason}" for reason, count in attempts.left_out.items())
        return f"the history looks damaged: {damaged} of {usable + damaged} finished attempts are unusable ({reasons})"
    least = max(learning.minimum_attempts, 2 * _LEAST_HELD_OUT)
    if usable < least:
        return f"too little history: {usable} finished {_attempts(usable)} measured, {least} needed"
    if attempts.misdated / usable > _MOST_DAMAGED_SHARE:
        return (
            f"the history looks damaged: the times of {attempts.misdated} of {usable} finished attempts cannot be right, "
            "so nobody knows which are the latest; is this machine's clock right?"
        )
    profiles = {(one.kind, one.peak_utilization_pct, one.peak_memory_bytes) for one in attempts.outcomes}
    if len(profiles) == 1:
        return f"constant history: all {usable} attempts measured the same, so there is nothing to learn"
    return None


def _rival(serving: Model | None, candidate: Model, earlier: Sequence[Outcome]) -> Model | None:
    """The serving model as it is; if it has seen what now judges, one made again from as much as it may have seen, which is
    what the candidate is made of.

    That happens when attempts of its last night have left the history since.
    """
    return serving if serving is None or serving.trained_until <= earlier[-1].ended_at else candidate


def _attempts(count: int) -> str:
    return "attempt" if count == 1 else "attempts"
