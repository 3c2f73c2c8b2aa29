"""The devices as passes see them: which are open, in which order, and which changed."""

from __future__ import annotations

from gpuq.core.scheduling.device_index import DeviceIndex
from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.apply import apply
from gpuq.core.state.events import Submitted
from gpuq.core.state.job import JobId
from gpuq.core.state.reservation import Reservation
from gpuq.core.state.state import State
from gpuq.core.state.verdict import Rule
from tests.support.nouns import GIB, a_device, a_forecast, a_job, a_reading, a_report
from tests.support.playbook import Playbook

LIMITS = Limits()


def synced(state: State, now: float = 0.0) -> DeviceIndex:
    index = DeviceIndex()
    index.sync(state, LIMITS, now)
    return index


def devices(row: list[tuple[float, int | str, str]]) -> list[str]:
    return [entry[-1] for entry in row]


def test_idle_devices_come_by_foreign_memory_and_then_as_they_were_first_reported() -> None:
    state = State()
    taken = a_reading(used_memory=GIB, foreign_memory=GIB)
    apply(state, a_report(a_device("z"), a_device("a"), a_device("m"), readings={"z": taken}), 0.0)
    assert devices(synced(state).idle) == ["a", "m", "z"]


def test_an_index_that_followed_every_change_is_in_the_order_of_a_new_one() -> None:
    state, followed = State(), DeviceIndex()
    for names in (("b",), ("b", "a"), ("c", "b", "a")):
        apply(state, a_report(*map(a_device, names)), 0.0)
        followed.sync(state, LIMITS, 0.0)
    assert devices(followed.idle) == devices(synced(state).idle) == ["b", "a", "c"]


def test_shared_devices_come_by_use_and_full_ones_are_not_open() -> None:
    play = Playbook().forecast("light", a_forecast(20, 2)).forecast("heavy", a_forecast(60, 2))
    play.happen(a_report(a_device("gpu0"), a_device("gpu1")))
    play.happen(Submitted(a_job(1, kind="heavy")), Submitted(a_job(2, kind="light"))).settle()
    index = synced(play.state, play.now)
    assert devices(index.idle) == []
    assert devices(index.shareable) == [play.launched()[2], play.launched()[1]]

    play.happen(Submitted(a_job(3, kind="light"))).settle()
    index.sync(play.state, LIMITS, play.now)
    assert devices(index.shareable) == [play.launched()[1]], "two on one device at most"


def test_memory_for_one_more_is_what_is_left_beside_promises_and_headroom() -> None:
    play = (
        Playbook().forecast("kind", a_forecast(20, 10)).happen(a_report(a_device(gib=40)), Submitted(a_job(1))).settle()
    )
    index = synced(play.state, play.now)
    assert index.count_with_memory(26 * GIB) == 1
    assert index.with_memory(26 * GIB) == ["gpu0"]
    assert index.count_with_memory(27 * GIB) == 0


def test_a_report_that_says_the_same_is_no_change() -> None:
    state = State()
    apply(state, a_report(a_device()), 0.0)
    index = synced(state)
    before = index.revision
    apply(state, a_report(a_device()), 1.0)
    index.sync(state, LIMITS, 1.0)
    assert index.changed_since(before) == []

    apply(state, a_report(a_device(), readings={"gpu0": a_reading(foreign_memory=GIB, used_memory=GIB)}), 2.0)
    index.sync(state, LIMITS, 2.0)
    assert index.changed_since(before) == ["gpu0"]


def test_devices_of_a_silent_host_close_and_open_again_with_its_next_report() -> None:
    state = State()
    apply(state, a_report(a_device()), 0.0)
    index = synced(state)
    index.sync(state, LIMITS, LIMITS.stale_after_s + 1)
    assert (devices(index.idle), index.unusable[Rule.STALE_READING]) == ([], 1)
    apply(state, a_report(a_device()), 100.0)
    index.sync(state, LIMITS, 100.0)
    assert (devices(index.idle), index.unusable[Rule.STALE_READING]) == (["gpu0"], 0)


def test_an_unwell_device_is_counted_and_not_open() -> None:
    state = State()
    apply(state, a_report(a_device(), readings={"gpu0": a_reading(unwell="XID 79")}), 0.0)
    index = synced(state)
    assert (devices(index.idle), index.unusable[Rule.UNWELL], index.open_of.get(a_device().host)) == ([], 1, None)


def test_a_reservation_made_or_ended_is_a_change_of_its_devices_only() -> None:
    state = State()
    apply(state, a_report(a_device("gpu0"), a_device("gpu1")), 0.0)
    index = synced(state)
    before, reservation = index.revision, Reservation(JobId(1), (a_device("gpu1").id,))

    index.reserve([reservation])
    assert (index.changed_since(before), index.reserved) == (["gpu1"], {"gpu1": reservation})
    index.reserve([reservation])
    assert index.revision == before + 1, "the same again is no change"
    index.reserve([])
    assert (index.revision, index.reserved) == (before + 2, {})
