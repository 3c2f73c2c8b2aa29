"""`gpuq reserve`: make, list and cancel reservations."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.cli.conftest import Command, FakeApi, problem

ADDRESS = "/api/v1/bookings"
BOOKING: dict[str, Any] = {
    "id": 3,
    "user": "ann",
    "by": "ann",
    "devices": ["GPU-1", "GPU-2"],
    "device_names": ["gpu1", "gpu2"],
    "from_at": "2026-11-23T14:00:00.000Z",
    "from_at_unix": 1795442400.0,
    "until_at": "2026-11-23T18:00:00.000Z",
    "until_at_unix": 1795456800.0,
    "begun": False,
    "staying": [
        {"job": 7, "owner": "bob", "ends_by": None, "preemptible": False},
        {"job": 8, "owner": "eve", "ends_by": "2026-11-23T15:00:00.000Z", "preemptible": True},
    ],
}


def test_a_reservation_is_confirmed_with_what_may_stay_there(gpuq: Command, api: FakeApi) -> None:
    api.on("POST", ADDRESS, BOOKING)
    done = gpuq("reserve", "--gpus", "2", "--from", "now+1hour", "--to", "now+5hours", "--gpu-type", "H100")
    assert done.code == 0
    said = " ".join(done.out.split())
    assert said.startswith("Reservation 3: gpu1, gpu2, 2026-11-23")
    assert "job 7 of bob is there, for an unknown time; it runs to its end." in said
    assert "at most; it is stopped when the reservation begins." in said
    body = api.asked("POST", ADDRESS)[0].body
    assert (body["gpus"], body["constraints"]) == (2, {"types": ["H100"]})
    assert body["from_at"] == pytest.approx(time.time() + 3600, abs=60)
    assert body["until_at"] == pytest.approx(time.time() + 5 * 3600, abs=60)


def test_named_devices_are_all_reserved_from_now(gpuq: Command, api: FakeApi) -> None:
    api.on("POST", ADDRESS, {**BOOKING, "by": "ola", "staying": []})
    assert (
        "Reservation 3 for ann: gpu1, gpu2,"
        in gpuq("reserve", "--device", "gpu1,gpu2", "--to", "2h", "--for", "ann").out
    )
    body = api.asked("POST", ADDRESS)[0].body
    assert (body["gpus"], body["user"]) == (2, "ann")
    assert body["from_at"] == pytest.approx(time.time(), abs=60)


def test_a_refusal_names_moments_in_local_time(gpuq: Command, api: FakeApi) -> None:
    taken = "reserved are gpu1 by ann from 2026-11-28T05:39:44.918Z to 2026-11-28T07:09:44.918Z (reservation 1)."
    api.on("POST", ADDRESS, problem(409, 6, taken, "Choose another time."))
    done = gpuq("reserve", "--to", "2h", TZ="UTC-1")
    assert "from 2026-11-28 06:39:44 to 2026-11-28 08:09:44 (" in done.err


@pytest.mark.parametrize("words", [("reserve",), ("reserve", "--list"), ("reservations",)])
def test_without_options_it_lists(gpuq: Command, api: FakeApi, words: tuple[str, ...]) -> None:
    api.on("GET", ADDRESS, [BOOKING])
    header, line, *staying = gpuq(*words).out.splitlines()
    assert header.split() == ["ID", "USER", "FROM", "TO", "DEVICES"]
    assert line.split()[:2] == ["3", "ann"]
    assert staying[0].startswith("Reservation 3: job 7 of bob")


def test_one_is_cancelled_by_its_number(gpuq: Command, api: FakeApi) -> None:
    api.on("POST", f"{ADDRESS}/3/cancel", BOOKING)
    assert gpuq("reserve", "--cancel", "3").out == "Reservation 3 is over.\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--gpus", "2"], "a reservation needs an end"),
        (["--to", "25:00"], "--to"),
        (["--to", "2h", "--list"], "--list goes with none of the other options"),
        (["--cancel", "three"], "--cancel `three`"),
        (["--to", "2h", "--gpus", "all"], "--gpus `all`"),
        (["--to", "2h", "--for", ""], "--for names no user"),
    ],
)
def test_what_makes_no_sense_is_refused(gpuq: Command, api: FakeApi, words: list[str], sentence: str) -> None:
    done = gpuq("reserve", *words)
    assert (done.code, sentence in done.err) == (2, True), done.err
    assert api.requests == []
