"""A job's life reported in looks, one a second on a made-up clock: what is measured of it."""

from __future__ import annotations

import copy
from collections.abc import Callable

import msgspec
import pytest
from gpuq_workers.measuring.measure import Look, Meter, MeterState
from gpuq_workers.measuring.progress import Progress

from gpuq.adapters.devices import ResidentUsage
from gpuq.core.measuring.measurement import Measurement, Segment
from gpuq.core.measuring.slowdown import Basis, rates, slowdown
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.job import JobId

PARTNER = AttemptId(JobId(2), 1)
OTHER = AttemptId(JobId(3), 1)
WALL = 1_000_000.0


class Life:
    """Drives a meter. `rate` steps a second are made from `clock` on, each at its exact time."""

    def __init__(self, meter: Meter | None = None) -> None:
        self.meter = meter or Meter()
        self.clock = 100.0
        self.made = 0.0
        self.first: float | None = None
        self.last = 0.0

    def go(
        self,
        seconds: int,
        rate: float = 0.0,
        *,
        partners: tuple[AttemptId, ...] = (),
        utilization: float | None = 50.0,
        memory: int | None = 1000,
        busy: float = 50.0,
        foreign: float | None = 0.0,
        held_back: float | None = 0.0,
        estimate: bool = False,
        absent: bool = False,
        each: Callable[[], None] = lambda: None,
    ) -> Life:
        for _ in range(seconds):
            whole = int(self.made)
            self.made += rate
            self.clock += 1.0
            if int(self.made) > whole:
                self.last = self.clock - (self.made - int(self.made)) / rate
                self.first = self.first or self.last
            usage = ResidentUsage(
                memory, utilization, memory_is_estimate=estimate, foreign_load=foreign, held_back=held_back
            )
            look = Look(WALL + self.clock, self.clock, usage, busy, partners, self.progress(), is_absent=absent)
            self.meter.look(look)
            each()
        return self

    def progress(self) -> Progress | None:
        return None if self.first is None else Progress(int(self.made), self.first, self.last)

    @property
    def measured(self) -> Measurement:
        return self.meter.measurement()


def test_the_time_lost_to_a_partner_counts_the_whole_time_beside_it() -> None:
    life = Life().go(30, rate=10)
    assert life.meter.slowed_s() == 0
    life.go(3, rate=8, partners=(PARTNER,))
    assert life.meter.slowed_s() is None, "no window beside it is over yet"
    life.go(37, rate=8, partners=(PARTNER,)).go(10, rate=10)
    assert life.meter.state.beside_s == 40
    assert life.meter.slowed_s() == pytest.approx(40 * 0.2, rel=0.05)


def alone(measurement: Measurement) -> Segment:
    return next(segment for segment in measurement.segments if not segment.partners)


def beside(measurement: Measurement, *partners: AttemptId) -> Segment:
    return next(segment for segment in measurement.segments if segment.partners == partners)


# --- progress ------------------------------------------------------------------------------------------------------


def test_windows_measure_the_rate():
    segment = alone(Life().go(61, rate=20).measured)
    assert segment.rate_sum / segment.windows == pytest.approx(20)
    assert segment.rate_square_sum == pytest.approx(400 * segment.windows)
    assert segment.steps == pytest.approx(20 * segment.seconds)
    assert 9 <= segment.windows <= 11


def test_without_a_counter_there_are_no_steps_and_no_rate():
    life = Life().go(30)
    assert (life.measured.steps, life.measured.segments, life.measured.first_step_at) == (None, (), None)
    assert life.meter.rate() is None


def test_the_first_window_after_the_first_step_is_left_out():
    life = Life().go(10).go(5, rate=1).go(30, rate=40)
    assert alone(life.measured).rate_sum / alone(life.measured).windows == pytest.approx(40, rel=0.02)
    assert life.measured.first_step_at == pytest.approx(WALL + 111)
    assert life.measured.steps == 1205


def test_slow_steps_make_longer_windows_not_rates_of_zero():
    segment = alone(Life().go(120, rate=0.1).measured)
    assert segment.rate_sum / segment.windows == pytest.approx(0.1)
    assert segment.seconds / segment.windows == pytest.approx(10)


def test_partners_have_segments_of_their_own_and_the_slowdown_follows():
    life = Life().go(31, rate=20).go(31, rate=10, partners=(PARTNER,)).go(31, rate=20)
    assert alone(life.measured).rate_sum / alone(life.measured).windows == pytest.approx(20)
    shared = beside(life.measured, PARTNER)
    assert shared.rate_sum / shared.windows == pytest.approx(10)
    found = slowdown(life.measured)
    assert found is not None
    assert found.value == pytest.approx(2)
    assert life.measured.partners == (PARTNER,)


def test_the_window_in_which_partners_change_is_in_no_segment():
    life = Life().go(28, rate=20)
    for poll in range(20):
        life.go(2, rate=5, partners=(PARTNER,) if poll % 2 else (OTHER,))
    assert [segment.partners for segment in life.measured.segments] == [()]
    assert alone(life.measured).rate_sum / alone(life.measured).windows == pytest.approx(20)


def test_a_step_begun_beside_another_partner_is_in_no_window():
    life = Life().go(60, rate=0.125).go(60, rate=0.05, partners=(PARTNER,))
    shared = beside(life.measured, PARTNER)
    assert shared.rate_sum / shared.windows == pytest.approx(0.05)


def test_the_last_window_counts_if_it_is_half_full():
    life = Life().go(19, rate=20)
    before = alone(life.measured).windows
    assert alone(life.meter.finish(life.progress())).windows == before + 1
    assert life.measured.steps == 380


def test_a_decreasing_counter_restarts_the_window():
    life = Life().go(30, rate=20)
    life.made, life.first, life.last = 0.0, None, 0.0
    measured = life.go(30, rate=20).measured
    assert alone(measured).rate_sum / alone(measured).windows == pytest.approx(20)


def test_rate_covers_the_last_seconds_and_is_0_after_a_halt():
    life = Life().go(30, rate=20).go(8, rate=4)
    assert life.meter.rate() == pytest.approx(4)
    assert life.go(20).meter.rate() == 0.0


def test_the_live_rate_of_slow_steps_is_steady():
    seen: list[float | None] = []
    life = Life().go(40, rate=0.1)
    life.go(40, rate=0.1, each=lambda: seen.append(life.meter.rate()))
    assert seen == pytest.approx([0.1] * 40)


def test_a_job_sampled_only_at_its_end_has_no_memory_peak():
    assert Life().go(2, memory=0).measured.peak_memory_bytes is None
    assert Life().go(2, memory=0).go(1, memory=5).go(1, memory=0).measured.peak_memory_bytes == 5


def test_implausible_counters_raise_nothing():
    meter = Meter()
    for second in range(20):
        progress = Progress(7, 1.0, 2.0 + second)
        meter.look(Look(WALL, 100.0 + second, ResidentUsage(1, 1.0), 1.0, (), progress))
    assert meter.rate() == 0.0
    assert meter.measurement().segments == ()


def test_the_number_of_segments_is_bounded_and_alone_is_kept():
    life = Life().go(20, rate=20)
    for job in range(300):
        life.go(13, rate=10, partners=(AttemptId(JobId(job + 10), 1),))
    assert len(life.measured.segments) == 200
    assert alone(life.measured).windows >= 1


# --- peaks ---------------------------------------------------------------------------------------------------------


def test_the_peak_is_that_of_the_training_not_of_what_came_before():
    life = Life().go(30, utilization=100).go(60, rate=5, utilization=40)
    assert life.measured.peak_utilization_pct == pytest.approx(40)


def test_without_a_signal_the_peak_counts_from_the_start():
    assert Life().go(30, utilization=100).go(60, utilization=40).measured.peak_utilization_pct == pytest.approx(100)


def test_one_window_in_twenty_may_be_higher_than_the_peak():
    life = Life().go(1, rate=5)
    for number in range(40):
        life.go(5, rate=5, utilization=90 if number in (7, 30) else 30)
    assert life.measured.peak_utilization_pct == pytest.approx(30)


def test_a_short_burst_is_averaged_over_five_seconds():
    life = Life().go(1, rate=5)
    for _ in range(20):
        life.go(4, rate=5, utilization=10).go(1, rate=5, utilization=100)
    assert life.measured.peak_utilization_pct == pytest.approx(28)


def test_less_than_a_window_gives_the_mean_so_far_and_nothing_gives_none():
    assert Life().go(4, rate=5, utilization=33).measured.peak_utilization_pct == pytest.approx(33)
    assert Life().go(60, rate=5, utilization=None).measured.peak_utilization_pct is None
    assert Meter().measurement() == Measurement()


def test_a_job_that_never_was_on_its_device_has_the_peaks_zero_once_it_was_looked_for_long_enough():
    def peaks(life: Life) -> tuple[float | None, int | None]:
        measured = life.meter.finish(life.progress())
        return measured.peak_utilization_pct, measured.peak_memory_bytes

    def absent(seconds: int, life: Life | None = None) -> Life:
        return (life or Life()).go(seconds, memory=0, utilization=0.0, absent=True)

    assert peaks(absent(30)) == (0.0, 0)
    assert absent(30).measured == Measurement(foreign_load=0.0, held_back=0.0), "while it runs it may still begin"
    assert peaks(absent(10)) == (0.0, 0)
    assert peaks(absent(9)) == (None, None), "a use of a second may have fallen between the looks"
    assert peaks(absent(30).go(6, memory=900, utilization=30.0)) == (30.0, 900)
    assert peaks(absent(30).go(9, memory=None, utilization=None)) == (None, None), "it may have been there then"
    assert peaks(absent(30, Life().go(3, memory=None, utilization=None))) == (0.0, 0)
    assert peaks(Life().go(30, memory=0, utilization=0.0)) == (None, None), "a driver that does not list processes"

    kept = msgspec.json.decode(msgspec.json.encode(absent(7).meter.state), type=MeterState)
    assert peaks(absent(7, Life(Meter(kept)))) == (0.0, 0), "a restart of the worker service forgets nothing"


def test_looks_at_which_the_job_is_not_on_its_device_do_not_lower_its_peak():
    life = (
        Life().go(1, rate=20).go(1, rate=20, memory=0, utilization=0.0).go(2, rate=20).go(1, memory=0, utilization=0.0)
    )
    assert life.measured.peak_utilization_pct == 50.0
    assert Life().go(30, rate=20, memory=0, utilization=0.0).measured.peak_utilization_pct is None


def test_beside_a_partner_on_a_full_device_the_peak_is_not_known():
    shared = {"partners": (PARTNER,), "rate": 5.0}
    assert Life().go(60, utilization=50, busy=100, **shared).measured.peak_utilization_pct is None
    assert Life().go(60, utilization=50, busy=90, **shared).measured.peak_utilization_pct == pytest.approx(50)


def test_windows_alone_give_the_peak_that_a_full_device_hides():
    life = Life().go(20, rate=5, utilization=80).go(300, rate=3, utilization=50, busy=100, partners=(PARTNER,))
    assert life.measured.peak_utilization_pct == pytest.approx(80)


def test_the_peak_memory_is_the_highest_reading_before_the_first_step_too():
    life = Life().go(3, memory=5000).go(3, memory=None).go(10, rate=5, memory=4000)
    assert life.measured.peak_memory_bytes == 5000


def test_an_estimate_of_memory_counts_only_where_nothing_else_is_known_and_is_a_bound_then():
    life = Life().go(5, memory=9000, estimate=True)
    assert (life.measured.peak_memory_bytes, life.measured.peak_memory_is_bound) == (9000, True)
    life.go(5, memory=4000)
    assert (life.measured.peak_memory_bytes, life.measured.peak_memory_is_bound) == (4000, False)


# --- foreign load --------------------------------------------------------------------------------------------------


def test_foreign_load_that_takes_nothing_leaves_every_figure_as_it_is():
    quiet = Life().go(61, rate=20, utilization=25).measured
    beside = Life().go(61, rate=20, utilization=25, foreign=1.0, held_back=0.02).measured
    assert (beside.peak_utilization_pct, beside.utilization_is_bound) == (quiet.peak_utilization_pct, False)
    assert rates(beside).alone_rate == pytest.approx(rates(quiet).alone_rate)
    assert beside.foreign_load == pytest.approx(1.0)
    assert beside.held_back == pytest.approx(0.02)


def test_foreign_load_that_takes_a_third_keeps_the_rate_apart_and_bounds_the_utilisation():
    """A job that wants 99% gets 66%."""
    measured = Life().go(61, rate=20, utilization=66, foreign=0.7, held_back=0.34).measured
    assert rates(measured).alone is None
    assert rates(measured, foreign_load=True).alone_rate == pytest.approx(20)
    assert measured.peak_utilization_pct == pytest.approx(100)
    assert measured.utilization_is_bound


def test_a_light_job_beside_foreign_load_has_a_bound_that_holds_and_is_below_the_whole_device():
    """A job that wants 25% and is held up for a third of its time reads 16.7%."""
    measured = Life().go(61, rate=20, utilization=16.7, foreign=1.8, held_back=0.34).measured
    assert 25 <= measured.peak_utilization_pct < 27
    assert measured.utilization_is_bound


def test_a_device_full_of_a_job_needs_no_bound():
    measured = Life().go(61, rate=20, utilization=97, foreign=0.1, held_back=0.1).measured
    assert (measured.peak_utilization_pct, measured.utilization_is_bound) == (pytest.approx(97), False)
    assert rates(measured).alone is None


def test_enough_quiet_windows_give_the_peak_despite_foreign_load():
    def mixed(quiet: int, disturbed: int) -> Measurement:
        life = Life().go(1, rate=20).go(5 * quiet, rate=20, utilization=80)
        return life.go(5 * disturbed, rate=10, utilization=40, foreign=1.0, held_back=0.5).measured

    enough = mixed(10, 20)
    assert (enough.peak_utilization_pct, enough.utilization_is_bound) == (pytest.approx(80), False)
    assert rates(enough).alone_rate == pytest.approx(20, rel=0.02)
    few = mixed(1, 30)
    assert few.utilization_is_bound
    assert few.peak_utilization_pct >= 80


def test_a_higher_use_beside_foreign_load_raises_the_peak():
    life = Life().go(1, rate=20).go(50, rate=20, utilization=40)
    measured = life.go(50, rate=20, utilization=60, foreign=1.0, held_back=0.5).measured
    assert (measured.peak_utilization_pct, measured.utilization_is_bound) == (pytest.approx(60), False)


def test_busy_phases_slowed_by_foreign_load_are_not_dropped_from_the_peak():
    """Foreign load all the time: it takes nothing of the light phases, and half of the others."""
    life = Life().go(1, rate=20)
    for _ in range(10):
        life.go(40, rate=20, utilization=20, foreign=1.0, held_back=0.0)
        life.go(10, rate=10, utilization=48, foreign=1.0, held_back=0.5)
    assert life.measured.peak_utilization_pct == pytest.approx(96)
    assert life.measured.utilization_is_bound


def test_a_slowdown_measured_beside_foreign_load_has_a_basis_of_its_own():
    life = Life().go(31, rate=20).go(31, rate=5, partners=(PARTNER,), foreign=1.0, held_back=0.5)
    found = slowdown(life.measured)
    assert found is not None
    assert (found.basis, found.value) == (Basis.FOREIGN, pytest.approx(4, rel=0.02))
    life.go(31, rate=10, partners=(PARTNER,))
    found = slowdown(life.measured)
    assert found is not None
    assert (found.basis, found.value) == (Basis.WITHIN_ATTEMPT, pytest.approx(2, rel=0.02))


def test_a_blink_beside_foreign_load_is_marked_too():
    life = Life().go(31, rate=10, partners=(PARTNER,), foreign=1.0, held_back=0.4)
    life.meter.pause()
    life.meter.add_blink((PARTNER,), 10, 1.0)
    blink = next(segment for segment in life.measured.segments if segment.blink)
    assert not blink.is_own_rate


def test_a_job_too_short_for_a_window_is_judged_by_its_looks():
    measured = Life().go(4, rate=5, utilization=50, foreign=1.0, held_back=0.4).measured
    assert measured.peak_utilization_pct == pytest.approx(50 / 0.6)
    assert measured.utilization_is_bound


def test_foreign_load_is_kept_over_a_restart():
    life = Life().go(31, rate=20, utilization=40, foreign=1.0, held_back=0.5)
    kept = msgspec.json.decode(msgspec.json.encode(life.meter.state), type=MeterState)
    assert Meter(kept).measurement() == life.measured


# --- restart -------------------------------------------------------------------------------------------------------


def test_a_restart_continues_and_attributes_the_gap_to_no_one():
    first = Life().go(31, rate=20, utilization=70, memory=9000)
    before = first.measured
    kept = msgspec.json.decode(msgspec.json.encode(first.meter.state), type=MeterState)
    second = Life(Meter(kept))
    second.clock, second.made, second.first, second.last = (
        first.clock + 60,
        first.made + 10,
        first.first,
        first.last + 60,
    )
    after = second.go(31, rate=20, utilization=70).measured
    assert alone(after).rate_sum / alone(after).windows == pytest.approx(20)
    assert alone(after).windows > alone(before).windows
    assert alone(after).seconds <= 62
    assert after.first_step_at == before.first_step_at
    assert after.peak_memory_bytes == 9000
    assert after.peak_utilization_pct == pytest.approx(70)


# --- blinks --------------------------------------------------------------------------------------------------------


def test_no_window_spans_a_pause():
    """The one paused makes no steps for a second, the other twice as many: neither shows in the shared rate."""
    paused, measured = Life(), Life()
    for life, within in ((paused, 0.0), (measured, 40.0)):
        life.go(40, rate=20, partners=(PARTNER,))
        life.meter.pause()
        life.go(2, rate=within, partners=(PARTNER,))
        life.meter.resume()
        life.go(40, rate=20, partners=(PARTNER,))
        shared = beside(life.measured, PARTNER)
        assert shared.rate_sum / shared.windows == pytest.approx(20)
        assert shared.rate_square_sum / shared.windows == pytest.approx(400), "in each of them"
        assert shared.windows >= 12


def test_looks_during_a_pause_are_ignored():
    life = Life().go(30, rate=20, utilization=50.0, partners=(PARTNER,))
    life.meter.pause()
    life.go(30, rate=20, utilization=100.0, memory=9999, partners=(PARTNER,))
    life.meter.resume()
    measured = life.go(30, rate=20, utilization=50.0, partners=(PARTNER,)).measured
    assert measured.peak_utilization_pct == 50.0
    assert measured.peak_memory_bytes == 1000


def test_steps_in_a_pause_are_a_segment_of_their_own():
    life = Life().go(30, rate=20, partners=(PARTNER,))
    life.meter.add_blink((PARTNER,), 30, 0.75)
    life.meter.add_blink((PARTNER,), 33, 0.75)
    (blink,) = [segment for segment in life.measured.segments if segment.blink]
    assert (blink.partners, blink.steps, blink.seconds, blink.windows) == ((PARTNER,), 63, 1.5, 2)
    found = slowdown(life.measured)
    assert found is not None
    assert found.value == pytest.approx(42 / 20)
    assert life.measured.blink == "2 times"
    again = Meter(msgspec.json.decode(msgspec.json.encode(life.meter.state), type=MeterState))
    assert again.measurement().blink == "2 times", "after a restart of the worker service too"


def test_the_peak_at_each_look_is_the_one_that_a_restarted_worker_service_computes():
    life, differing = Life(), []

    def compare() -> None:
        restarted = Meter(copy.deepcopy(life.meter.state)).measurement()
        now = life.measured
        if (now.peak_utilization_pct, now.utilization_is_bound) != (
            restarted.peak_utilization_pct,
            restarted.utilization_is_bound,
        ):
            differing.append(life.clock)

    life.go(6, utilization=20)
    for utilization, partners in ((30, ()), (70, (OTHER,)), (90, ()), (10, ())):
        life.go(15, rate=5, utilization=utilization, partners=partners, each=compare)
    # In the first seconds after the first step there is no whole window, and the mean so far is not saved.
    assert [clock for clock in differing if clock > 113] == []
    assert life.measured.peak_utilization_pct == pytest.approx(90)
