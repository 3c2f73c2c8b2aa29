"""What an attempt cost its partners, one by one, where the worker could distinguish them."""

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
    slowdowns = outcome_of(measurement, None, KINDS, None).slowdowns

    assert [(row.kind, round(row.value, 6)) for row in slowdowns] == [("a", 1.25), ("b", 2.0)]


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


def test_the_slowdown_by_blinks_comes_first_and_other_estimates_are_kept_beside_it():
    blink = Segment((A,), 5.0, 60, 6, 72.0, 864.0, blink=True)
    outcome = outcome_of(
        Measurement(segments=(at(10), at(8, A), blink), partners=(A,), blink="6 times"), None, KINDS, None
    )

    assert (outcome.slowdown, outcome.slowdown_basis) == (1.5, "measured by blinks")
    assert [(row.value, row.basis) for row in outcome.slowdown_otherwise] == [(1.25, "within attempt")]
    assert [(row.kind, row.value, row.basis) for row in outcome.slowdowns] == [("a", 1.5, "measured by blinks")]
    assert outcome.blink == "6 times"


def test_a_job_that_never_ran_alone_has_a_slowdown_and_an_alone_rate_by_blinks():
    blink = Segment((A,), 5.0, 60, 6, 72.0, 864.0, blink=True)
    outcome = outcome_of(Measurement(segments=(at(8, A), blink), partners=(A,)), None, KINDS, None)

    assert (outcome.slowdown, outcome.alone_rate, outcome.shared_rate) == (1.5, 12.0, 8.0)


def beside_foreign_load(segment: Segment, held_back: float) -> Segment:
    return replace(segment, foreign=True, held_back_s=held_back * segment.seconds)


def test_a_rate_is_disturbed_if_foreign_load_took_a_large_part_of_the_time():
    spoiled = outcome_of(Measurement(segments=(beside_foreign_load(at(6), 0.3),)), None, KINDS, None)
    assert (spoiled.alone_rate, spoiled.disturbed_rate) == (None, 6.0)
    unharmed = outcome_of(Measurement(segments=(beside_foreign_load(at(6), 0.05),)), None, KINDS, None)
    assert (unharmed.alone_rate, unharmed.disturbed_rate) == (6.0, None)


def test_a_slowdown_beside_foreign_load_is_shown_and_nothing_is_learned_of_the_pair():
    measurement = Measurement(segments=(at(10), beside_foreign_load(at(4, A), 0.3)), partners=(A,))
    outcome = outcome_of(measurement, None, KINDS, None)
    assert (outcome.slowdown, outcome.slowdown_basis, outcome.slowdowns) == (2.5, "beside foreign load", ())
    never_alone = replace(measurement, segments=measurement.segments[1:])
    outcome = outcome_of(never_alone, None, KINDS, Rate.of([12.0, 12.0]))
    assert (outcome.slowdown, outcome.slowdown_basis, outcome.slowdowns) == (3.0, "beside foreign load", ())
