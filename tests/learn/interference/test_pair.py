"""The cost of a pair as the core gets it, and its evidence."""

from __future__ import annotations

from dataclasses import replace

from gpuq.core.state.forecast import BUDGETS, LEARNED, MEASURED, PARTLY, RULE
from gpuq.learn.history.history import History, MeasuredSlowdown
from gpuq.learn.interference import Interference, PairCosts, Profile
from gpuq.learn.interference.learned import Admission
from gpuq.learn.interference.pair import estimate, shown_beyond
from gpuq.learn.interference.risk import LeftOutPairs, Meeting, law_calibration
from tests.learn.interference.world import expect
from tests.learn.world import DEVICE, Outcome

A, B, C = (Profile(name, utilization_pct=60.0) for name in "abc")
PART = Interference((A, B), ((0, 1, 1.0), (1, 0, 1.0)))


def an_outcome(kind: str, *slowdowns: tuple[str, float], **changes: object) -> Outcome:
    values: dict[str, object] = {
        "kind": kind,
        "signature": kind,
        "script_sha256": None,
        "device_type": DEVICE,
        "features": {},
        "peak_utilization_pct": 60.0,
        "peak_memory_bytes": 1,
        "duration_s": 1.0,
        "alone_rate": None,
        "shared_rate": None,
        "slowdowns": tuple((name, value, None, None) for name, value in slowdowns),
        "ending": "exited",
        "shared": True,
        "ended_at": 1.0,
    }
    return Outcome(**{**values, **changes})  # type: ignore[arg-type]


def costs(*outcomes: Outcome, part: Interference | None = PART) -> PairCosts:
    found = PairCosts(History.from_outcomes(outcomes), 0.95)
    found.use({} if part is None else {DEVICE: part})
    return found


def test_evidence_says_how_much_of_a_pair_is_known():
    of = costs()

    assert [of.cost(*pair, DEVICE, DEVICE).evidence for pair in ((A, B), (A, C), (C, C))] == [LEARNED, PARTLY, RULE]


def test_measured_pair_goes_before_the_learned_one():
    of = costs(an_outcome("a", ("b", 1.05)))
    cost = of.cost(A, B, DEVICE, DEVICE)

    assert (cost.evidence, cost.newcomer) == (MEASURED, 1.05)
    assert cost.resident == expect(PART, B, A)[0], "the other direction is filled in: both kinds are known"


def test_unmeasured_direction_stays_unknown_if_a_kind_is_unknown():
    of = costs(an_outcome("a", ("c", 1.05)))
    cost = of.cost(A, C, DEVICE, DEVICE)

    assert (cost.evidence, cost.newcomer, cost.resident) == (MEASURED, 1.05, None)


def test_law_gives_nothing_for_unknown_utilisation():
    cost = costs(part=None).cost(A, Profile("d"), DEVICE, DEVICE)

    assert (cost.evidence, cost.newcomer, cost.resident_upper) == (RULE, None, None)


def test_law_is_equal_for_both_jobs():
    cost = costs(part=None).cost(A, B, DEVICE, DEVICE)

    assert cost.evidence == RULE
    assert cost.newcomer is not None
    assert cost.newcomer == cost.resident
    assert 1.19 < cost.newcomer < 1.25


def test_ways_of_sharing_never_mix():
    history = History.from_outcomes([an_outcome("a", ("b", 3.0), sharing="mps")])

    assert history.measured_pairs(f"{DEVICE} / mps")
    assert not history.measured_pairs(DEVICE)
    assert history.slowdowns("a", "b", DEVICE) == []


def test_cache_is_dropped_when_a_pair_was_measured():
    history = History()
    of = PairCosts(history, 0.95)
    before = of.cost(A, B, DEVICE, DEVICE)
    history.learn(an_outcome("a", ("b", 1.5)))

    assert of.cost(A, B, DEVICE, DEVICE) == before
    of.forget()
    assert of.cost(A, B, DEVICE, DEVICE).newcomer == 1.5


def test_first_meetings_that_exceed_a_budget_raise_the_risk_of_all_pairs_there():
    of, light = costs(part=None), (Profile("d", utilization_pct=40.0), Profile("e", utilization_pct=50.0))
    before = of.cost(*light, DEVICE, DEVICE).risk(1.15, 1.15)
    for bad in "xyz":
        of.judge(DEVICE, None, Meeting(frozenset((bad, "d")), True, 0.1))
    of.forget()

    assert before is not None
    assert before <= 0.1 < (of.cost(*light, DEVICE, DEVICE).risk(1.15, 1.15) or 0)
    assert of.cost(*light, "another type", "another type").risk(1.15, 1.15) == before
    of.use({}, "trained, but with too little to calibrate")
    assert of.cost(*light, DEVICE, DEVICE).risk(1.15, 1.15) > 0.1
    enough = law_calibration(LeftOutPairs.of([0.01] * 50, [0.01] * 50))
    of.use({DEVICE: Interference((), (), admission=Admission.of(law=enough))}, "calibrated with what happened")
    assert of.cost(*light, DEVICE, DEVICE).risk(1.15, 1.15) <= 0.1


def test_risk_of_a_measured_pair_is_what_its_measurements_say():
    kept, exceeded = (costs(an_outcome("a", ("b", value)), an_outcome("b", ("a", 1.01))) for value in (1.02, 1.2))

    assert kept.cost(A, B, DEVICE, DEVICE).risk(1.15, 1.15) == 0.02
    assert exceeded.cost(A, B, DEVICE, DEVICE).risk(1.15, 1.15) == 1
    assert exceeded.cost(B, A, DEVICE, DEVICE).risk(1.15, 1.3) == 0.05, "each budget counts for its own job"


def risk_after(*values: float, error: float = 0.005) -> float:
    """The risk at 1.15 of a pair that was slowed so in its meetings, oldest first, each with this 95% interval."""
    _, _, risks = estimate([MeasuredSlowdown(value, value * (1 + error)) for value in values], 0.95)
    assert risks is not None
    return risks[BUDGETS.index(1.15)]


def test_a_known_pair_that_exceeded_its_budget_in_two_of_five_meetings_is_refused():
    assert risk_after(1.0, 1.4, 1.0, 1.4, 1.0) > 0.3
    assert risk_after(1.05) <= 0.05
    assert risk_after(*[1.1] * 3) <= 0.1
    assert risk_after(*[1.1] * 3) < risk_after(1.1), "more meetings make it clearer"
    assert risk_after(*[1.1] * 3, error=0.2) > 0.1, "unless each of them was measured badly"


def test_after_an_upgrade_of_the_driver_two_bad_meetings_are_enough_to_refuse_a_known_pair():
    assert risk_after(*[1.05] * 16) <= 0.01
    assert risk_after(*[1.05] * 15, 1.4) <= 0.1, "one bad meeting may be chance"
    assert risk_after(*[1.05] * 14, 1.4, 1.4) > 0.1
    assert risk_after(*[1.4] * 4, *[1.05] * 12) <= 0.1, "and what an upgrade mended counts as mended"


def test_a_slowdown_without_an_interval_is_shown_beyond_its_budget_by_more_than_repeated_runs_differ():
    assert not shown_beyond(1.15, 1.2, None)
    assert shown_beyond(1.15, 1.3, None)
    assert shown_beyond(1.15, 1.2, 1.16)
    assert not shown_beyond(1.15, 1.2, 1.14)


def test_where_meetings_of_one_pair_differ_little_one_of_them_says_more():
    """One measurement of 1.11 does not show that the next one keeps 1.15, unless other pairs met again and were slowed alike."""
    one = [
        replace(an_outcome(*way), slowdowns=((way[1][0], way[1][1], 1.105, 1.115),))
        for way in (("a", ("b", 1.11)), ("b", ("a", 1.11)))
    ]
    others = [an_outcome(f"k{place % 20}", ("other", 1.3)) for place in range(80)]

    assert (costs(*one).cost(A, B, DEVICE, DEVICE).risk(1.15, 1.15) or 0) > 0.1
    assert (costs(*others, *one).cost(A, B, DEVICE, DEVICE).risk(1.15, 1.15) or 1) <= 0.1


def test_what_one_owners_kinds_did_counts_for_pairs_of_that_owner():
    light, heavy = Profile("d", utilization_pct=40.0), Profile("e", utilization_pct=50.0)
    of = costs(an_outcome("d", owner="eve"), an_outcome("e", owner="ann"), an_outcome("f", owner="ann"), part=None)
    of.judge(DEVICE, None, Meeting(frozenset(("e", "f")), False, 0.1, owner="ann"))
    for place in range(12):
        of.judge(DEVICE, None, Meeting(frozenset((f"bad {place}", "x")), True, 0.1, owner="eve"))
    others = Profile("f", utilization_pct=40.0)

    assert (of.cost(light, heavy, DEVICE, DEVICE).risk(1.15, 1.15) or 0) > 0.5
    assert (of.cost(others, heavy, DEVICE, DEVICE).risk(1.15, 1.15) or 1) < 0.5
