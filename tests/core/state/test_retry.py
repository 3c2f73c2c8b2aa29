"""Rules for retries: how they are written, which one an end falls under, how long the pause is."""

from __future__ import annotations

import pytest

from gpuq.core.state.retry import RetryRule, backoff_s, rule_for
from gpuq.states import JobState

RULES = tuple(map(RetryRule.parse, ("oom:2", "exit=75:3", "any:1")))


@pytest.mark.parametrize("text", ["oom:2", "node:5", "timeout:20", "exit=75:3", "any:9999"])
def test_a_rule_is_written_as_it_is_read(text: str) -> None:
    assert str(RetryRule.parse(text)) == text


@pytest.mark.parametrize("text", ["oom", "oom:0", "exit:3", "exit=0:3", "exit=256:1", "node=3:1", "any:10000", "3"])
def test_what_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a rule"):
        RetryRule.parse(text)


@pytest.mark.parametrize(
    ("state", "exit_code", "rule"),
    [
        (JobState.OUT_OF_MEMORY, 1, "oom:2"),
        (JobState.FAILED, 75, "exit=75:3"),
        (JobState.FAILED, 1, "any:1"),
        (JobState.NODE_FAIL, None, "any:1"),
        (JobState.TIMEOUT, None, "None"),
        (JobState.COMPLETED, 0, "None"),
        (JobState.CANCELLED, 143, "None"),
    ],
)
def test_an_end_has_its_own_rule_or_that_of_any_end(state: JobState, exit_code: int | None, rule: str) -> None:
    assert str(rule_for(RULES, state, exit_code)) == rule


def test_each_pause_is_twice_as_long_as_the_one_before_up_to_ten_minutes() -> None:
    assert [backoff_s(n) for n in (1, 2, 3, 6, 7, 8, 5000)] == [10, 20, 40, 320, 600, 600, 600]
