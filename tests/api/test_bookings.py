"""Reservations of devices: users make them within a limit, operators for others, and everyone sees them."""

from __future__ import annotations

import time

from msgspec.structs import replace

from gpuq.core.state.device import Device, DeviceId, HostId
from gpuq.core.state.job import JobId, JobState
from gpuq.core.state.quota import EVERYONE, Account, Quota, QuotaScope
from tests.api.support import GIB, attempt, forecast, record, row
from tests.api.test_visibility import ANN, BOB, OLA, Shared, shared  # noqa: F401 - a fixture

BOOKINGS = "/api/v1/bookings"
DAY_S = 86_400.0


def span(begins_in_s: float = 3600.0, hours: float = 1.0, **more: object) -> dict[str, object]:
    return {"from_at": time.time() + begins_in_s, "until_at": time.time() + begins_in_s + hours * 3600, **more}


def give(shared: Shared) -> None:  # noqa: F811
    devices = (Device(DeviceId(f"GPU-{n}"), HostId("h"), "nvml", "A", GIB, index=str(n)) for n in range(2))
    shared.endpoint.store.set_devices(*devices)


async def test_a_user_reserves_and_all_see_it(shared: Shared) -> None:  # noqa: F811
    give(shared)
    status, made = await shared.post(ANN, BOOKINGS, span(constraints={"devices": ["gpu1"]}))
    assert (status, made["user"], made["by"], made["device_names"]) == (201, str(ANN), str(ANN), ["gpu1"])
    assert (made["begun"], made["staying"]) == (False, [])
    assert (await shared.get(BOB, BOOKINGS))[1] == [made]
    status, said = await shared.post(BOB, BOOKINGS, span(gpus=2))
    assert (status, said["exit_code"]) == (409, 6)
    assert f"reserved are gpu1 by {ANN} from {made['from_at']} to {made['until_at']} (reservation 1)" in said["detail"]
    assert (await shared.post(BOB, f"{BOOKINGS}/1/cancel"))[0] == 403
    assert (await shared.post(OLA, f"{BOOKINGS}/1/cancel"))[0] == 200
    assert (await shared.post(ANN, f"{BOOKINGS}/1/cancel"))[0] == 404
    assert (await shared.get(BOB, BOOKINGS))[1] == []


async def test_only_operators_reserve_for_others_and_beyond_the_limits(shared: Shared) -> None:  # noqa: F811
    give(shared)
    everyone = Account(QuotaScope.USER, EVERYONE)
    shared.endpoint.store.quota_rows[everyone] = Quota(everyone, running_devices=1)
    for body, words in (
        (span(user="bob"), "may not reserve devices for bob; it takes the role `operator`"),
        (span(hours=60), "would have 60 device-hours reserved; 48 are the limit"),
        (span(15 * DAY_S), "at most 14 days ahead"),
        (span(100 * 3600.0, gpus=2), "would have 2 devices reserved at a time; 1 are the quota"),
    ):
        status, said = await shared.post(ANN, BOOKINGS, body)
        assert (status, said["exit_code"], words in said["detail"]) == (403, 5, True), said
        assert (await shared.post(OLA, BOOKINGS, body))[0] == 201
    assert [one["user"] for one in (await shared.get(ANN, BOOKINGS))[1]] == ["bob", *[str(OLA)] * 3]


async def test_a_user_has_no_more_short_ones_than_hours(shared: Shared) -> None:  # noqa: F811
    give(shared)
    for number in range(24):
        assert (await shared.post(ANN, BOOKINGS, span(3600.0 * (number + 1), 1e-6, gpus=2)))[0] == 201
    status, said = await shared.post(ANN, BOOKINGS, span(100 * 3600.0, 1e-6))
    assert (status, "would have 49 device-hours reserved; 48 are the limit" in said["detail"]) == (403, True), said


async def test_one_without_time_or_devices_is_refused(shared: Shared) -> None:  # noqa: F811
    give(shared)
    begins = time.time() + 3600
    for body, sentence in (
        ({"from_at": begins, "until_at": begins - 1}, "would end before it begins"),
        ({"from_at": begins - 9000, "until_at": begins - 7200}, "would be in the past"),
    ):
        status, said = await shared.post(ANN, BOOKINGS, body)
        assert (status, said["exit_code"], sentence in said["detail"]) == (409, 6, True), said
    status, said = await shared.post(ANN, BOOKINGS, span(gpus=3))
    assert (status, said["exit_code"]) == (409, 7)


async def test_a_booking_that_there_is_not_is_no_job(shared: Shared) -> None:  # noqa: F811
    for text in ("x", "77"):
        status, said = await shared.post(ANN, f"{BOOKINGS}/{text}/cancel")
        assert status == 404
        assert "no reservation" in said["detail"]


async def test_jobs_that_may_stay_are_named_with_their_end(shared: Shared) -> None:  # noqa: F811
    give(shared)
    store, now = shared.endpoint.store, time.time()
    for job, limit_s in ((1, None), (2, 7200.0), (3, 1000.0)):
        asked = replace(record(now - 1200, time_limit_s=limit_s, preemptible=job == 2), owner="bob")
        store.job_rows[JobId(job)] = row(job, asked, JobState.RUNNING, attempt=1)
        store.set_attempts(attempt(job, "GPU-0", now - 900, {**forecast(50, 1.0), "duration_p90_s": None}))
    _, made = await shared.post(ANN, BOOKINGS, span(constraints={"devices": ["gpu0"]}))
    assert [(one["job"], one["owner"], one["preemptible"]) for one in made["staying"]] == [
        (1, "bob", False),
        (2, "bob", True),
    ]
    assert [one["ends_by"] is None for one in made["staying"]] == [True, False]
