"""Jobs that want several devices of one host: all or nothing, side by side with others, and never starved by small ones."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.actions import Launch
from gpuq.core.state.device import Device
from gpuq.core.state.events import CancelRequested, Submitted
from gpuq.core.state.forecast import PairCost
from gpuq.core.state.job import JobId, JobState, KindId
from gpuq.core.state.verdict import Rule
from tests.support.nouns import GIB, a_device, a_forecast, a_job, a_report, a_start, an_exit
from tests.support.playbook import Playbook


def hosts(*sizes: int, gib: float = 24) -> list[tuple[Device, ...]]:
    return [tuple(a_device(f"h{h}/{d}", gib, host=f"h{h}") for d in range(size)) for h, size in enumerate(sizes)]


def playing(*sizes: int, limits: Limits | None = None) -> Playbook:
    play = Playbook(limits)
    return play.happen(*(a_report(*devices, host=devices[0].host) for devices in hosts(*sizes)))


def devices_of(play: Playbook, job: int) -> tuple[str, ...]:
    found = [a.attempt.devices for a in play.done if isinstance(a, Launch) and a.attempt.id.job == job]
    return found[-1] if found else ()


def test_a_gang_starts_on_one_host_and_leaves_whole_hosts_for_others() -> None:
    play = playing(4, 2).happen(Submitted(a_job(1, device_count=2))).settle()

    assert devices_of(play, 1) == ("h1/0", "h1/1")


def test_a_gang_waits_where_two_hosts_have_enough_only_together() -> None:
    play = playing(1, 2, 1).happen(Submitted(a_job(1))).settle()
    play.happen(Submitted(a_job(2)), Submitted(a_job(3)), Submitted(a_job(4))).settle()

    play.happen(Submitted(a_job(5, device_count=2)), a_start(1), an_exit(1), a_start(4), an_exit(4)).settle()
    assert play.reason(5) is Rule.RESOURCES

    play.happen(a_start(2), an_exit(2), a_start(3), an_exit(3)).settle()
    assert devices_of(play, 5) == ("h1/0", "h1/1")


def test_a_gang_too_large_for_every_host_gets_the_verdict_never_fits() -> None:
    play = playing(2, 3).happen(Submitted(a_job(1, device_count=4))).settle()
    verdict = play.verdict(1)
    assert verdict is not None
    assert (verdict.rule, dict(verdict.numbers)["devices_per_host"]) == (Rule.NEVER_FITS, 3)


def test_a_gang_needs_a_host_with_enough_large_devices() -> None:
    mixed = (a_device("a", 24), a_device("b", 80))
    play = Playbook().happen(a_report(*mixed), Submitted(a_job(1, device_count=2, declared_memory=40 * GIB))).settle()

    assert play.reason(1) is Rule.NEVER_FITS


def test_a_gang_may_have_a_partner_on_one_device_and_the_other_to_itself() -> None:
    pair = PairCost(KindId("small"), 1.1, 1.1, 1.05, 1.05)
    play = playing(2).forecast("small", a_forecast(30, 2)).forecast("gang", a_forecast(30, 2))
    together = a_forecast(30, 2, pairs=(pair,), expected_slowdown=1.1, upper_slowdown=1.1)
    play.forecast("gang", together, beside=("small",))
    play.happen(Submitted(a_job(1, kind="small"))).settle()
    play.happen(Submitted(a_job(2, kind="gang", device_count=2))).settle()

    launch = next(a for a in play.done if isinstance(a, Launch) and a.attempt.id.job == 2)
    assert set(launch.attempt.devices) == {"h0/0", "h0/1"}
    assert launch.attempt.promised == (2 * GIB, 2 * GIB)
    assert launch.attempt.forecast.pairs == (pair,), "the attempt's forecast speaks of its partner, on whichever device"
    assert launch.attempt.forecast.expected_slowdown == 1.1
    assert launch.verdict.rule is Rule.FITS


def test_one_partner_that_it_would_slow_too_much_keeps_the_whole_gang_waiting() -> None:
    pair = PairCost(KindId("small"), 1.0, 1.0, 1.5, 1.5)
    play = playing(2).forecast("small", a_forecast(30, 2)).forecast("gang", a_forecast(30, 2))
    play.forecast("gang", a_forecast(30, 2, pairs=(pair,)), beside=("small",))
    play.happen(Submitted(a_job(1, kind="small")), Submitted(a_job(2, kind="gang", device_count=2))).settle()

    assert devices_of(play, 2) == ()
    assert play.reason(2) is Rule.SLOWDOWN_BUDGET


def test_a_host_that_drains_is_kept_until_the_gang_has_it() -> None:
    play = playing(2, 2, limits=Limits(patience_s=100, stale_after_s=1e9))
    play.happen(*(Submitted(a_job(n)) for n in range(1, 5))).settle()
    play.happen(*(a_start(n) for n in range(1, 5)), Submitted(a_job(5, device_count=2, submitted_at=play.now))).settle()
    play.happen(
        Submitted(a_job(6, submitted_at=play.now)), Submitted(a_job(7, submitted_at=play.now)), after=200
    ).settle()

    play.happen(an_exit(1)).settle()
    assert devices_of(play, 6) == (), "the device is kept for the gang, though it is idle"

    play.happen(an_exit(3)).settle()
    assert devices_of(play, 6) == ("h1/0",), "the other host is not kept"

    play.happen(an_exit(2)).settle()
    assert devices_of(play, 5) == ("h0/0", "h0/1")


def a_queue_behind_a_gang_of_an_hour(waits_s: float) -> Playbook:
    """Two devices, two jobs on them, a gang of two that takes an hour, and after it has waited so long, one more and an end."""
    play = playing(2, limits=Limits(patience_s=100, patience_ratio=2, stale_after_s=1e9))
    play.forecast("gang", a_forecast(duration_p50_s=3600.0, duration_p90_s=7200.0))
    play.happen(Submitted(a_job(1)), Submitted(a_job(2, kind="other"))).settle().happen(a_start(1), a_start(2))
    play.happen(Submitted(a_job(3, kind="gang", device_count=2, submitted_at=play.now))).settle()
    play.happen(after=waits_s).settle()
    return play.happen(Submitted(a_job(4, submitted_at=play.now)), an_exit(1)).settle()


def test_a_job_that_takes_devices_for_long_is_patient_for_longer() -> None:
    device_time = 2 * 3600
    assert devices_of(a_queue_behind_a_gang_of_an_hour(2 * device_time - 100), 4) == ("h0/0",)
    assert devices_of(a_queue_behind_a_gang_of_an_hour(2 * device_time + 100), 4) == (), "now its device is kept"


def test_nothing_is_kept_for_a_job_that_was_cancelled_meanwhile() -> None:
    play = playing(2, limits=Limits(patience_s=100, stale_after_s=1e9))
    play.happen(Submitted(a_job(1)), Submitted(a_job(2, kind="other"))).settle().happen(a_start(1), a_start(2))
    play.happen(Submitted(a_job(3, device_count=2, submitted_at=play.now))).settle()
    play.happen(Submitted(a_job(4, submitted_at=play.now)), an_exit(1), after=200).settle()
    assert devices_of(play, 4) == ()

    play.happen(CancelRequested(JobId(3), "ada")).settle()
    assert devices_of(play, 4) == ("h0/0",)


@pytest.mark.parametrize("forgets", [False, True])
@settings(max_examples=25, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    share=st.booleans(),
    seed=st.integers(0, 10_000),
    patient_s=st.integers(0, 300),
)
def test_no_gang_starves_however_many_small_jobs_come(
    forgets: bool, sizes: list[int], share: bool, seed: int, patient_s: int
) -> None:
    """Each step a small job comes and one that runs ends, so there is never a moment of rest; the gang's turn comes, once it has
    waited as often as it must for its own device-time."""
    rng = random.Random(seed)
    count = rng.randint(1, max(sizes))
    play = playing(*sizes, limits=Limits(patience_s=50, patience_ratio=patient_s / 10, stale_after_s=1e9))
    play.forecast("small", a_forecast(40, 2) if share else a_forecast(90, 2))
    play.forecast("gang", a_forecast(90, 2, duration_p50_s=10.0 / count))
    for number in range(1, 2 * sum(sizes) + 2):
        play.happen(Submitted(a_job(number, kind="small", submitted_at=play.now))).settle()
    gang = 1000
    play.happen(Submitted(a_job(gang, kind="gang", device_count=count, submitted_at=play.now)))
    most = 2 * sum(sizes)
    for step in range(6 * most + 20 + patient_s // 10):
        if play.job_state(gang) is not JobState.PENDING:
            return
        play.happen(Submitted(a_job(2000 + step, kind="small", submitted_at=play.now)), after=10)
        # The longest-running end first, as jobs of one length do.
        oldest = next(attempt for attempt in play.state.attempts.values() if attempt.id.job != gang)
        play.happen(a_start(oldest.id.job, oldest.id.number), an_exit(oldest.id.job, attempt=oldest.id.number))
        if forgets:
            play.known.forget()
        play.settle()
    raise AssertionError("the gang never started")
