"""Predicted verdicts for pairs of waiting jobs equal those of admission once the first one runs."""

import pytest

from gpuq.core.scheduling.admit import DeviceSnapshot
from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.forecast import LEARNED, Forecast, PairCost
from gpuq.core.state.job import Sharing
from gpuq.policies.planners.pairing import USUAL_SLOWDOWN, Newcomer, PairBook, slowdown_beside, slowdown_of
from tests.policies.shop import Shop
from tests.support.nouns import a_device, a_forecast, a_job, a_reading

DEVICE = a_device(gib=16)
DEVICE_CLASS = (DEVICE.type, DEVICE.sharing)
SNAPSHOT = DeviceSnapshot(DEVICE, (), a_reading())
LIMITS = Limits()


def newcomer(kind: str, load: float = 40.0, gib: float = 4.0, **changes: object) -> Newcomer:
    return Newcomer(a_job(kind=kind, **changes), a_forecast(load, gib))


def pair_forecast(newcomer: float, resident: float, **changes: object) -> Forecast:
    return Forecast(pairs=(PairCost("b", newcomer, newcomer, resident, resident, **changes),))  # type: ignore[arg-type]


def test_load_decides_about_an_unknown_pair() -> None:
    book = PairBook()
    assert book.expected("a", "b", DEVICE_CLASS) is None  # type: ignore[arg-type]
    assert book.allows(newcomer("a"), newcomer("b"), SNAPSHOT, LIMITS)
    assert not book.allows(newcomer("a", 90), newcomer("b"), SNAPSHOT, LIMITS)


def test_evidence_counts_in_both_directions() -> None:
    book = PairBook()
    book.note("a", DEVICE_CLASS, pair_forecast(1.02, 1.05))  # type: ignore[arg-type]
    assert book.expected("a", "b", DEVICE_CLASS) == (1.02, 1.05)  # type: ignore[arg-type]
    assert book.expected("b", "a", DEVICE_CLASS) == (1.05, 1.02)  # type: ignore[arg-type]
    assert book.allows(newcomer("a", 70), newcomer("b", 70), SNAPSHOT, LIMITS)
    assert book.allows(newcomer("b", 70), newcomer("a", 70), SNAPSHOT, LIMITS)


def test_new_evidence_and_other_limits_change_the_verdict() -> None:
    book, pair = PairBook(), (newcomer("a"), newcomer("b"))
    assert book.allows(*pair, SNAPSHOT, LIMITS)
    book.note("a", DEVICE_CLASS, pair_forecast(1.5, 1.0, evidence=LEARNED))  # type: ignore[arg-type]
    assert not book.allows(*pair, SNAPSHOT, LIMITS)
    assert book.allows(*pair, SNAPSHOT, Limits(max_slowdown=1.6))


@pytest.mark.parametrize(
    "other",
    [
        newcomer("b", gib=11),
        newcomer("b", sharing=Sharing.NEVER),
        newcomer("b", alone=True),
        Newcomer(a_job(kind="b"), Forecast()),
    ],
    ids=["too much memory", "never shares", "runs alone", "unknown"],
)
def test_job_that_may_not_share_has_no_partner(other: Newcomer) -> None:
    assert not PairBook().allows(newcomer("a"), other, SNAPSHOT, LIMITS)
    assert not PairBook().allows(other, newcomer("a"), SNAPSHOT, LIMITS)


def test_slowdowns_of_several_partners_add_up() -> None:
    pairs = tuple(PairCost(k, v, v, 1.3, 1.3) for k, v in (("a", 1.1), ("b", 1.2)))  # type: ignore[arg-type]
    assert slowdown_beside(Forecast(pairs=pairs)) == pytest.approx(1.3)
    assert slowdown_beside(Forecast()) == USUAL_SLOWDOWN
    shop = Shop(1)
    shop.start(a_job(9, kind="light", signature="light 1"), "h0/0")
    resident = next(shop.context().snapshots).residents[0]
    assert slowdown_of(resident, Forecast()) == USUAL_SLOWDOWN
    known = Forecast(pairs=(PairCost(resident.kind, 1.1, 1.1, 1.4, 1.4),))
    assert slowdown_of(resident, known) == 1.4
