"""What `gpuq top` asks of the API, and how often."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpuq.api.contract import params
from gpuq.cli.top import feed


class Counted:
    """An API with many devices, which counts its answers."""

    def __init__(self, devices: int = 100) -> None:
        self.devices = devices
        self.looks = 0
        self.asked: list[str | None] = []

    def piece(self, path: str, ids: str | None = None) -> tuple[bytes, None]:
        assert path == "/api/v1/gpus"
        self.looks += 1
        self.asked.append(ids)
        wanted = ids.split(",") if ids else [f"GPU-{number}" for number in range(self.devices)]
        return json.dumps([{"id": device, "look": self.looks} for device in wanted]).encode(), None

    def get(self, path: str, **query: object) -> Any:
        return {"jobs": [], "arrays": [], "next": None}

    def look(self, path: str) -> Any:
        return {"dispatcher": "ok"}


def test_of_many_devices_only_those_on_the_screen_are_read_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(feed.time, "monotonic", lambda: now[0])
    api = Counted()
    looks = feed.Feed(api)  # type: ignore[arg-type]
    looks.read("all", [])
    now[0] += 1
    found = looks.read("all", ["GPU-7", "GPU-3", "GPU-of-before"]).devices
    assert [one["id"] for one in found] == [f"GPU-{number}" for number in range(100)], "in their order"
    assert {one["id"] for one in found if one["look"] == 2} == {"GPU-3", "GPU-7"}
    now[0] += 10
    assert {one["look"] for one in looks.read("all", ["GPU-7"]).devices} == {3}
    assert api.asked == [None, "GPU-7,GPU-3", None]


def test_the_devices_of_a_very_high_screen_are_read_in_parts() -> None:
    api = Counted(devices=250)
    looks = feed.Feed(api)  # type: ignore[arg-type]
    shown = list(looks.read("all", []).devices)
    found = looks.read("all", [one["id"] for one in shown]).devices
    assert [ids.count(",") + 1 for ids in api.asked if ids] == [params.MAX_DEVICES, params.MAX_DEVICES, 50]
    assert all(one["look"] > 1 for one in found)


def test_few_devices_are_all_read_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "FEW", 100)
    api = Counted()
    looks = feed.Feed(api)  # type: ignore[arg-type]
    looks.read("all", [])
    looks.read("all", ["GPU-7"])
    assert api.asked == [None, None]
