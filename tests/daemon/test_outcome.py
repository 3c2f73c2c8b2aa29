"""What an attempt cost its partners, one by one, where the worker could tell them apart."""

from __future__ import annotations

from dataclasses import replace

from gpuq.core.measuring.measurement import Measurement, Segment
from gpuq.core.measuring.slowdown import Rate
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.job import JobId, KindId
from gpuq.daemon.outcome import outcome_of
from tests.support.nouns import a_device

A, B = AttemptId(JobId(2), 1), AttemptId(JobId(3), 1)
KINDS = {JobId(2): KindId("a"), JobId(3): KindId("b")}


def at(rate: float, *partners: AttemptId) -> Segment:
    return Segment(partners, 50.0, round(rate * 50), 10, rate * 10, rate * rate * 10)


def test_each_partner_that_was_there_by_itself_has_its_own_slowdown():
    measurement = Measurement(segments=(at(10), at(8, A), at(5, B), at(2, A, B)), partners=(A, B))
    told = outcome_of(measurement, None, KINDS, None).slowdowns

    assert [(row.kind, round(row.value, 6)) for row in told] == [("a", 1.25), ("b", 2.0)]


def test_only_an_attempt_that_shared_says_how_its_device_was_shared():
    shared = Measurement(segments=(at(10), at(8, A)), partners=(A,))

    for sharing in ("mps", "time-slicing", None):
        device = a_device(sharing=sharing)
        assert outcome_of(shared, device, KINDS, None).sharing == sharing
        assert outcome_of(Measurement(segments=(at(10),)), device, KINDS, None).sharing is None
    assert outcome_of(shared, None, KINDS, None).sharing is None


def test_what_several_did_together_is_nobodys_own():
    measurement = Measurement(segments=(at(10), at(2, A, B)), partners=(A, B))

    assert outcome_of(measurement, None, KINDS, None).slowdowns == ()


def test_blinks_come_first_and_what_else_is_known_is_told_beside_them():
    blink = Segment((A,), 5.0, 60, 6, 72.0, 864.0, blink=True)
    told = outcome_of(
        Measurement(segments=(at(10), at(8, A), blink), partners=(A,), blink="6 times"), None, KINDS, None
    )

    assert (told.slowdown, told.slowdown_basis) == (1.5, "measured by blinks")
    assert [(row.value, row.basis) for row in told.slowdown_otherwise] == [(1.25, "within attempt")]
    assert [(row.kind, row.value, row.basis) for row in told.slowdowns] == [("a", 1.5, "measured by blinks")]
    assert told.blink == "6 times"


def test_a_job_that_never_ran_alone_has_a_slowdown_and_an_alone_rate_by_blinks():
    blink = Segment((A,), 5.0, 60, 6, 72.0, 864.0, blink=True)
    told = outcome_of(Measurement(segments=(at(8, A), blink), partners=(A,)), None, KINDS, None)

    assert (told.slowdown, told.alone_rate, told.shared_rate) == (1.5, 12.0, 8.0)


def beside_foreign_load(segment: Segment, held_back: float) -> Segment:
    return replace(segment, foreign=True, held_back_s=held_back * segment.seconds)


def test_rates_beside_foreign_load_that_took_a_part_of_the_time_are_told_apart():
    spoiled = outcome_of(Measurement(segments=(beside_foreign_load(at(6), 0.3),)), None, KINDS, None)
    assert (spoiled.alone_rate, spoiled.disturbed_rate) == (None, 6.0)
    unharmed = outcome_of(Measurement(segments=(beside_foreign_load(at(6), 0.05),)), None, KINDS, None)
    assert (unharmed.alone_rate, unharmed.disturbed_rate) == (6.0, None)


def test_a_slowdown_beside_foreign_load_is_shown_and_nothing_is_learned_of_the_pair():
    measurement = Measurement(segments=(at(10), beside_foreign_load(at(4, A), 0.3)), partners=(A,))
    told = outcome_of(measurement, None, KINDS, None)
    assert (told.slowdown, told.slowdown_basis, told.slowdowns) == (2.5, "beside foreign load", ())
    never_alone = replace(measurement, segments=measurement.segments[1:])
    told = outcome_of(never_alone, None, KINDS, Rate.of([12.0, 12.0]))
    assert (told.slowdown, told.slowdown_basis, told.slowdowns) == (3.0, "beside foreign load", ())
