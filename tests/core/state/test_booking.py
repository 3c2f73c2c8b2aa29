"""The devices of a booking, as they are chosen when it is made."""

from __future__ import annotations

import pytest

from gpuq.core.state.apply import apply
from gpuq.core.state.booking import Booking, BookingId, BookingRequest, booked_at_once, booked_hours, choose_devices
from gpuq.core.state.constraints import DeviceConstraints
from gpuq.core.state.device import DeviceId
from gpuq.core.state.events import BookingCancelled, BookingMade
from gpuq.core.state.state import State
from tests.support.nouns import a_device

DEVICES = [
    a_device(f"{host}{n}", host=host, index=str(n)) for host, count in (("a", 2), ("b", 3)) for n in range(count)
]
HOUR = 3600.0


def a_booking(number: int, *devices: str, begin: float = 0.0, end: float = HOUR, user: str = "ann") -> Booking:
    return Booking(BookingId(number), user, user, tuple(map(DeviceId, devices)), begin, end)


def chosen(count: int, *bookings: Booking, busy: tuple[str, ...] = (), **changes: object) -> tuple[str, ...] | None:
    values = {"user": "bob", "by": "bob", "count": count, "from_at": 0.0, "until_at": HOUR, **changes}
    return choose_devices(BookingRequest(**values), DEVICES, bookings, {DeviceId(one) for one in busy})  # type: ignore[arg-type]


def test_the_devices_are_of_one_host_if_one_has_enough_and_of_the_one_with_the_fewest_to_spare() -> None:
    assert chosen(2) == ("a0", "a1")
    assert chosen(3) == ("b0", "b1", "b2")
    assert chosen(4) == ("a0", "b0", "b1", "b2")
    assert chosen(6) is None


def test_devices_that_are_idle_are_preferred() -> None:
    assert chosen(2, busy=("a1",)) == ("b0", "b1")
    assert chosen(1, busy=("a0", "b0", "b1", "b2")) == ("a1",)


def test_what_another_booking_has_at_the_same_time_is_taken() -> None:
    assert chosen(2, a_booking(1, "a0")) == ("b0", "b1")
    assert chosen(2, a_booking(1, "a0"), from_at=HOUR, until_at=2 * HOUR) == ("a0", "a1"), (
        "one begins as the other ends"
    )
    assert chosen(5, a_booking(1, "a0")) is None


def test_devices_meet_the_constraints() -> None:
    constraints = DeviceConstraints(devices=(DeviceId("b2"), DeviceId("a1")))
    assert chosen(2, constraints=constraints) == ("a1", "b2")
    assert chosen(3, constraints=constraints) is None


def test_hours_count_from_now_on() -> None:
    bookings = [a_booking(1, "a0", "a1", end=2 * HOUR), a_booking(2, "b0", user="bob")]
    assert booked_hours(bookings, "ann", HOUR) == 2.0
    assert booked_hours(bookings, "bob", 2 * HOUR) == 0.0


def test_a_short_one_counts_as_an_hour_until_it_begins() -> None:
    """It keeps jobs of others off its devices until then. A user could have any number of such."""
    second = Booking(BookingId(1), "ann", "ann", (DeviceId("a"), DeviceId("b")), 10 * HOUR, 10 * HOUR + 1)
    assert booked_hours([second], "ann", HOUR) == 2.0
    assert booked_hours([second], "ann", 10 * HOUR) == pytest.approx(2 / 3600)
    assert booked_hours([second], "ann", 11 * HOUR) == 0.0
    assert BookingRequest("ann", "ann", 2, 10 * HOUR, 10 * HOUR + 1).device_hours == 2.0


def test_a_booking_is_taken_in_once_and_never_beside_another_of_its_devices() -> None:
    state = State()
    assert apply(state, BookingMade(a_booking(1, "a0")), 0.0)
    assert not apply(state, BookingMade(a_booking(1, "a0")), 0.0)
    assert not apply(state, BookingMade(a_booking(2, "a0", begin=HOUR - 1, end=2 * HOUR)), 0.0)
    assert apply(state, BookingMade(a_booking(3, "a0", begin=HOUR, end=2 * HOUR)), 0.0)
    assert apply(state, BookingCancelled(BookingId(1), "ann"), 0.0)
    assert not apply(state, BookingCancelled(BookingId(1), "ann"), 0.0)
    assert list(state.bookings) == [3]


def test_what_a_user_has_at_a_time_counts_moment_by_moment() -> None:
    request = BookingRequest(user="ann", by="ann", count=1, from_at=0.0, until_at=4 * HOUR)
    in_a_row = [a_booking(1, "a0", begin=HOUR, end=2 * HOUR), a_booking(2, "a0", "a1", begin=2 * HOUR, end=9 * HOUR)]
    beyond = [a_booking(3, "b0", "b1", "b2", begin=4 * HOUR, end=5 * HOUR), a_booking(4, "b0", user="bob")]
    assert booked_at_once(request, []) == 1
    assert booked_at_once(request, [*in_a_row, *beyond]) == 3
    assert booked_at_once(request, [*in_a_row, a_booking(5, "b2", begin=-HOUR, end=3 * HOUR)]) == 4
