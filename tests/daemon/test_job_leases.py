"""When an attempt whose job may start elsewhere has certainly ended, although its host is silent."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuq.core.state.attempt import AttemptId, Ending
from gpuq.core.state.job import JobId
from gpuq.core.state.state import State, put_attempt
from gpuq.daemon.job_leases import JobLeases
from tests.support.playbook import one_running

ATTEMPT = AttemptId(JobId(1), 1)
LEASE_S, END_S = 60.0, 30.0
"""Its shim ends it after the lease, which takes half a minute at most."""


def running(lease_s: float | None = LEASE_S) -> State:
    state = one_running().state
    put_attempt(state, replace(state.attempts[ATTEMPT], lease_s=lease_s))
    return state


@pytest.mark.parametrize("heard", [False, True])
def test_it_has_ended_once_its_lease_and_the_time_for_its_end_are_over(heard: bool) -> None:
    """Both count from the last report, or from the start of the dispatcher."""
    state, leases, began = running(), JobLeases(1000.0), 1000.0
    attempt = state.attempts[ATTEMPT]
    if heard:
        began = 1500.0
        leases.heard(attempt.host, "instance", began)

    last, over = began + LEASE_S + END_S, began + LEASE_S + END_S + 1
    assert leases.may_run(attempt, "instance", last)
    assert list(leases.ends(state, last, at=7.0)) == []
    assert not leases.may_run(attempt, "instance", over)
    (end,) = leases.ends(state, over, at=7.0)
    assert (end.attempt, end.at, end.ending) == (ATTEMPT, 7.0, Ending.LOST)
    assert end.reason is not None
    assert "was not heard for 91 s" in end.reason


def test_an_attempt_without_a_lease_is_not_ended() -> None:
    state, leases = running(lease_s=None), JobLeases(0.0)
    assert list(leases.ends(state, 1e9, at=1e9)) == []
    assert not leases.may_run(state.attempts[ATTEMPT], None, 1.0), "only a lease says how long"


def test_another_instance_on_its_host_says_nothing_of_the_one_that_claimed_it() -> None:
    state, leases = running(), JobLeases(0.0)
    attempt = state.attempts[ATTEMPT]
    leases.heard(attempt.host, "other", 100.0)
    assert not leases.may_run(attempt, "claimer", 100.0)
    assert list(leases.ends(state, 100.0, at=100.0)) == [], "the host is there, and its reports say what runs"
