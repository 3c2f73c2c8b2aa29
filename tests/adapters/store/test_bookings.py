"""Bookings in the record: of two for the same devices one is made."""

from __future__ import annotations

from typing import Any

import pytest

from gpuq.adapters.store.contract import Store
from gpuq.adapters.store.row_types import Commit
from gpuq.core.state.booking import BookingId, BookingRequest
from gpuq.core.state.constraints import DeviceConstraints
from gpuq.core.state.device import Device, DeviceId, HostId
from gpuq.core.state.quota import Account, Quota, QuotaScope
from gpuq.errors import Conflict, NeverFits, NotFound, OverQuota

HOUR = 3600.0


def request(**changes: Any) -> BookingRequest:
    return BookingRequest(**{"user": "ann", "by": "ola", "count": 1, "from_at": HOUR, "until_at": 2 * HOUR, **changes})


@pytest.fixture
def with_devices(store: Store) -> Store:
    devices = [Device(DeviceId(f"GPU-{n}"), HostId("h"), "nvml", "A", 2**34, index=str(n)) for n in range(2)]
    store.commit(Commit(devices=devices))
    return store


def test_a_booking_is_kept_with_a_request_until_it_is_cancelled(with_devices: Store) -> None:
    store = with_devices
    first = store.add_booking(request(count=2), 0.0)
    assert (first.id, first.devices, first.user, first.by) == (1, ("GPU-0", "GPU-1"), "ann", "ola")
    assert store.bookings(since=0.0) == [first]
    assert store.bookings(since=2 * HOUR) == []
    with pytest.raises(NotFound, match="no reservation 1, or it is over"):
        store.cancel_booking(BookingId(1), "ann", 2 * HOUR)
    store.cancel_booking(BookingId(1), "ann", HOUR)
    assert store.bookings(since=0.0) == []
    assert store.add_booking(request(), 0.0).id == 2, "no number is given twice"
    assert [(one.verb, one.by) for one in store.requests(9)] == [
        ("book", "ola"),
        ("cancel_booking", "ann"),
        ("book", "ola"),
    ]


def test_one_that_cannot_be_had_is_refused_with_those_in_the_way(with_devices: Store) -> None:
    store = with_devices
    store.add_booking(request(), 0.0)
    with pytest.raises(
        Conflict, match=r"2 devices are asked for, and 1 are free .* gpu0 by ann from .*1970-01-01T01:00"
    ):
        store.add_booking(request(count=2, from_at=0.0), 0.0)
    with pytest.raises(NeverFits, match=r"3 devices are asked for, and 2 of those known may be it"):
        store.add_booking(request(count=3), 0.0)
    with pytest.raises(NeverFits, match="it asks for type B; there are A"):
        store.add_booking(request(constraints=DeviceConstraints(types=("B",))), 0.0)
    with pytest.raises(OverQuota, match=r"User ann would have 2 device-hours reserved; 1\.5 are the limit"):
        store.add_booking(request(most_device_hours=1.5), 0.0)
    assert len(store.bookings(since=0.0)) == len(store.requests(9)) == 1


def test_a_user_reserves_no_more_devices_at_a_time_than_the_quota_allows(with_devices: Store) -> None:
    """Jobs keep to it; a reservation kept all others from the devices instead."""
    store = with_devices
    ann = Account(QuotaScope.USER, "ann")
    store.commit(Commit(quotas={ann: Quota(ann, running_devices=1)}))
    first = store.add_booking(request(within_quota=True), 0.0)
    with pytest.raises(OverQuota, match="User ann would have 2 devices reserved at a time; 1 are the quota"):
        store.add_booking(request(within_quota=True, from_at=0.0), 0.0)
    with pytest.raises(OverQuota):
        store.add_booking(request(within_quota=True, count=2, from_at=3 * HOUR, until_at=4 * HOUR), 0.0)
    later = store.add_booking(request(within_quota=True, from_at=2 * HOUR, until_at=4 * HOUR), 0.0)
    assert store.bookings(since=0.0) == [first, later]
    assert store.add_booking(request(within_quota=True, user="bob"), 0.0).user == "bob"
    assert store.add_booking(request(from_at=2 * HOUR, until_at=3 * HOUR), 0.0).by == "ola", "of an operator"
