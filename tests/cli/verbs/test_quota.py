"""`gpuq quota`: list, set, remove."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.conftest import Command, FakeApi

QUOTA: dict[str, Any] = {
    "scope": "user",
    "name": "ann",
    "own": True,
    "running_devices": 2,
    "running_devices_limit": 4,
    "waiting_jobs": 17,
    "waiting_jobs_limit": None,
    "device_hours": 12.5,
    "device_hours_limit": 100.0,
    "window_s": 604_800.0,
}


def test_the_list_shows_use_beside_the_limits(gpuq: Command, api: FakeApi) -> None:
    nothing = {**QUOTA, "scope": "project", "name": "nlp", "running_devices": None, "device_hours_limit": None}
    api.on("GET", "/api/v1/quotas", [QUOTA, nothing])
    header, one, other = gpuq("quota").out.splitlines()
    assert header.split() == ["WHO", "DEVICES", "WAITING", "DEVICE-HOURS", "PER"]
    assert one.split() == ["user", "ann", "2/4", "17/-", "12.5/100", "7d"]
    assert other.split() == ["project", "nlp", "-/4", "17/-", "12.5/-", "-"]


def test_set_sends_the_limits_that_were_given(gpuq: Command, api: FakeApi) -> None:
    api.on("POST", "/api/v1/quotas", {"asked": "quota", "scope": "user", "name": "*"})
    done = gpuq("quota", "set", "--user", "*", "--devices", "4", "--device-hours", "100", "--per", "30d")
    assert (done.code, done.out) == (0, "The quota of user * is set.\n")
    body = {"scope": "user", "name": "*", "running_devices": 4, "device_hours": 100, "window_s": 2_592_000.0}
    assert api.asked("POST", "/api/v1/quotas")[0].body == body


def test_remove_names_the_account_alone(gpuq: Command, api: FakeApi) -> None:
    api.on("POST", "/api/v1/quotas/remove", {"asked": "remove_quota", "scope": "project", "name": "nlp"})
    assert gpuq("quota", "remove", "--project", "nlp").out == "project nlp has no quota of its own any more.\n"
    assert api.asked("POST", "/api/v1/quotas/remove")[0].body == {"scope": "project", "name": "nlp"}


@pytest.mark.parametrize(
    "words",
    [
        ("set", "--devices", "4"),
        ("set", "--user", "ann", "--project", "nlp", "--devices", "4"),
        ("set", "--user", "ann", "--devices", "-1"),
        ("set", "--user", "ann", "--devices", "1", "--per", "7d"),
        ("remove", "--user", "ann", "--devices", "4"),
        ("list", "--user", "ann"),
    ],
)
def test_words_that_make_no_sense_are_refused(gpuq: Command, words: tuple[str, ...]) -> None:
    assert gpuq("quota", *words).code == 2
