"""Pauses: a short job runs at full speed while the residents of its devices stand still, each for as long as its account allows.

A pause is paid from the slowdown account of the job that stands still (`measuring/account.py`), of which nothing counts before it
is earned. A pause ends with the newcomer, or shortly before the account is empty, so the pause itself never exceeds a budget. A
newcomer that is still there then is paused in turn, as far as its own account allows. After that the two run side by side, and
may exceed their budgets: that is left to those few that take far longer than nine of ten of their kind.

Who may be paused: a job that runs, whose host has reported it lately, which may share its devices, whose account is known, and
whose submitter and past allow it. A gang over several hosts is not: its attempts could not stop at one moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import permutations

from gpuq.core.measuring.account import SlowdownAccount, slowdown_account
from gpuq.core.scheduling.admit import DeviceSnapshot, budget_of, needed_memory, refusal_in_pause
from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.actions import LeaveUnpaused, Pause, Resume
from gpuq.core.state.attempt import Attempt
from gpuq.core.state.forecast import Forecast
from gpuq.core.state.job import Job
from gpuq.core.state.state import State
from gpuq.core.state.verdict import Numbers, Rule, Verdict

# The dispatcher looks at accounts once a second, and a host may need another second to let a job go on.
RESERVE_S = 5.0
# A job whose account was empty runs without its partner until it may lose so much again, or the two would take turns every
# second.
_REFILLED_S = 120.0
_LEAST_RUNS = 3
TRIAL_S = 120.0
"""By then it is known what a newcomer that is tried costs (`trials`); else it counts as one whose account is empty."""
LEAST_PAUSE_S = 30.0
"""What an account must allow for a pause to begin, beyond the reserve."""


def account_of(attempt: Attempt, limits: Limits, now: float) -> SlowdownAccount | None:
    """The slowdown account of an attempt; None before its start, and where it has no budget."""
    budget = budget_of(attempt.max_slowdown, limits)
    if attempt.started_at is None or budget is None:
        return None
    paused_s = attempt.paused_s
    if paused_s is not None and attempt.paused_at is not None:
        paused_s += max(0.0, now - max(attempt.paused_at, attempt.last_reported or 0.0))
    return slowdown_account(budget, now - attempt.started_at, attempt.slowed_s, paused_s)


def left_s(attempt: Attempt, limits: Limits, now: float) -> float | None:
    """Seconds that the attempt may still lose, a reserve kept; None where that is not known."""
    account = account_of(attempt, limits, now)
    return None if account is None or account.left_s is None else account.left_s - RESERVE_S


def pausable_s(state: State, attempt: Attempt, limits: Limits, now: float) -> float:
    """For how many seconds the attempt may be paused; 0 if it may not be paused now."""
    job = state.jobs[attempt.id.job]
    # A time limit goes on during a pause.
    allowed = (
        limits.pauses
        and job.pausable
        and job.time_limit_s is None
        and attempt.kind not in state.unpausable
        and not attempt.not_pausable
    )
    runs = attempt.started_at is not None and attempt.stopping is None and not attempt.revoking
    heard = attempt.last_reported is not None and now - attempt.last_reported <= limits.stale_after_s
    if not (allowed and runs and heard and attempt.shares and attempt.gang is None) or job.cancel_requested:
        return 0.0
    if attempt.paused_for is not None or _stands_for(state, attempt):
        return 0.0
    left = left_s(attempt, limits, now)
    return 0.0 if left is None else max(0.0, left)


def pause_needed_s(job: Job, forecast: Forecast, limits: Limits) -> float | None:
    """How long the residents may have to stand still for this job; None where its duration is not known well enough.

    Its time limit ends it in any case. Of the jobs of a public trace that were of a kind with three earlier runs or more, 2.5%
    took longer than twice the 90th percentile of these, and 11% of those with a single one (docs/measurements/scheduling.md).
    """
    bounds = [] if job.time_limit_s is None else [job.time_limit_s]
    if forecast.duration_p90_s is not None and forecast.duration_runs >= _LEAST_RUNS:
        bounds.append(limits.pause_margin * forecast.duration_p90_s)
    return max(LEAST_PAUSE_S, min(bounds)) if bounds else None


def judge_in_pause(
    state: State, job: Job, forecast: Forecast, snapshot: DeviceSnapshot, limits: Limits, now: float
) -> Verdict:
    """May this job have this device while its residents stand still? One without residents is judged by `admit`."""
    refused = refusal_in_pause(job, forecast, snapshot, limits)
    if refused is not None:
        return refused
    needed_s = pause_needed_s(job, forecast, limits)
    allowed_s = min((pausable_s(state, resident, limits, now) for resident in snapshot.residents), default=0.0)
    numbers: Numbers = (
        ("paused", " ".join(str(resident.id.job) for resident in snapshot.residents)),
        ("pause_needed_s", needed_s),
        ("pause_allowed_s", allowed_s),
        ("needed_bytes", needed_memory(job, forecast)),
        ("committed_bytes", snapshot.committed_memory),
        ("headroom_bytes", int(snapshot.device.total_memory * limits.memory_headroom)),
        ("total_bytes", snapshot.device.total_memory),
    )
    if needed_s is None or needed_s > allowed_s:
        return Verdict(False, Rule.SLOWDOWN_ACCOUNT, snapshot.device.id, numbers)
    return Verdict(True, Rule.PAUSE, snapshot.device.id, numbers)


def pause_actions(state: State, limits: Limits, now: float) -> Iterator[Pause | Resume | LeaveUnpaused]:
    """Let jobs go on whose pause is over, and pause the partners of those whose account is empty."""
    for job in (state.jobs[job] for job in state.index.ended):
        if job.failed_after_pause and job.kind not in state.unpausable:
            yield LeaveUnpaused(job.kind)
    if not limits.pauses:
        return
    # The stop of a job that is cancelled ends its pause.
    paused = [a for a in state.attempts.values() if a.paused_for and not state.jobs[a.id.job].cancel_requested]
    # All that stand still for a gang go on together. While one does not, the gang could not be paused for the others.
    over = {attempt.paused_for for attempt in paused if _is_over(state, attempt, limits, now)}
    resumed = {attempt.id for attempt in paused if attempt.paused_for in over}
    yield from map(Resume, resumed)
    for attempt, other in _partners(state):
        if attempt.paused_for is not None or attempt.stopping is not None or other.id in resumed:
            continue
        account = account_of(attempt, limits, now)
        empty = account is not None and account.left_s is not None and account.left_s < 0
        if not (empty or is_unmeasured(attempt, limits, now)):
            continue
        if pausable_s(state, other, limits, now) >= LEAST_PAUSE_S:
            yield Pause(other.id, attempt.id)
            resumed.add(other.id)


def may_stand_still(attempt: Attempt, limits: Limits, now: float) -> bool:
    """Whether the account of a paused attempt still allows it. Until its host has reported it to this dispatcher, it does."""
    if attempt.last_reported is None:
        return True
    left = left_s(attempt, limits, now)
    return left is not None and left > 0 and attempt.not_pausable is None


def _is_over(state: State, attempt: Attempt, limits: Limits, now: float) -> bool:
    """Whether a paused attempt is to go on although the one that it was paused for runs."""
    if not may_stand_still(attempt, limits, now) or attempt.kind in state.unpausable:
        return True
    if attempt.last_reported is None:
        return False
    if now - attempt.last_reported > limits.stale_after_s:
        return True
    other = state.attempts[attempt.paused_for] if attempt.paused_for else attempt
    if (attempt.paused_at or 0.0) <= other.launched_at:
        return False  # the other started in this pause, which lasts until its end
    of_other = left_s(other, limits, now)
    return not other.trial if of_other is None else of_other >= _REFILLED_S


def is_unmeasured(attempt: Attempt, limits: Limits, now: float) -> bool:
    """Whether the attempt was started as a trial, and it is still not known what that costs."""
    account = account_of(attempt, limits, now)
    late = attempt.started_at is not None and now - attempt.started_at >= TRIAL_S
    return attempt.trial and late and account is not None and account.left_s is None


def _stands_for(state: State, attempt: Attempt) -> bool:
    """Whether another attempt is paused for this one."""
    return any(other.paused_for == attempt.id for device in attempt.devices for other in state.residents_of(device))


def _partners(state: State) -> Iterable[tuple[Attempt, Attempt]]:
    """Each attempt with each that shares a device with it."""
    shared = (state.residents_of(device) for device, residents in state.residents.items() if len(residents) > 1)
    return dict.fromkeys((one, other) for residents in shared for one, other in permutations(residents, 2))
