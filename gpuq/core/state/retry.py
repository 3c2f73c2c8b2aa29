"""Retries: how often a job starts again after which end, written as `oom:2`, `node:5`, `timeout:20`, `exit=75:3`, `any:1`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from gpuq.states import JobState

PATTERN = r"^(oom|node|timeout|any|exit=([1-9]|[1-9][0-9]|1[0-9][0-9]|2[0-4][0-9]|25[0-5])):[1-9][0-9]{0,3}\Z"

# Before the first retry, and at most before a later one: each waits twice as long as the one before.
FIRST_BACKOFF_S, LONGEST_BACKOFF_S = 10.0, 600.0


class RetryCause(StrEnum):
    """After which end. `ANY` is every one that has no rule of its own, but the time limit."""

    OOM = "oom"
    NODE = "node"
    TIMEOUT = "timeout"
    EXIT = "exit"
    ANY = "any"


_CAUSES = {
    JobState.OUT_OF_MEMORY: RetryCause.OOM,
    JobState.NODE_FAIL: RetryCause.NODE,
    JobState.TIMEOUT: RetryCause.TIMEOUT,
    JobState.FAILED: RetryCause.EXIT,
}


@dataclass(frozen=True, slots=True)
class RetryRule:
    """A job starts again up to so many `times` after such an end. `exit_code` belongs to `EXIT`."""

    cause: RetryCause
    times: int
    exit_code: int | None = None

    def __str__(self) -> str:
        code = "" if self.exit_code is None else f"={self.exit_code}"
        return f"{self.cause}{code}:{self.times}"

    @classmethod
    def parse(cls, text: str) -> RetryRule:
        """The rule in text that matches PATTERN. Raises ValueError for other text."""
        if not re.fullmatch(PATTERN, text):
            raise ValueError(f"{text!r} is not a rule for retries")
        what, _, times = text.partition(":")
        cause, _, code = what.partition("=")
        return cls(RetryCause(cause), int(times), int(code) if code else None)


def rule_for(rules: Sequence[RetryRule], state: JobState, exit_code: int | None) -> RetryRule | None:
    """The rule that says how often a job starts again after this end; None if it does not."""
    cause = _CAUSES.get(state)
    if cause is None:
        return None
    own = [rule for rule in rules if rule.cause is cause and rule.exit_code in (None, exit_code)]
    of_any = [rule for rule in rules if rule.cause is RetryCause.ANY and cause is not RetryCause.TIMEOUT]
    return next(iter(own + of_any), None)


def backoff_s(retries: int) -> float:
    """Seconds to wait after an end, before retry number `retries`, which counts from 1."""
    return min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2.0 ** min(retries - 1, 30))
