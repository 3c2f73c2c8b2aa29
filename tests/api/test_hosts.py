"""Hosts are listed with their state; requests about them are recorded for the dispatcher."""

from __future__ import annotations

import sys
import time
from dataclasses import replace

import msgspec
import pytest

from gpuq.messages.live import DeviceStatus, HostStatus, LiveView, ResidentStatus
from tests.api.conftest import Endpoint

GIB = 2**30


@pytest.fixture
def fleet(endpoint: Endpoint) -> Endpoint:
    """`node1` reports and runs job 7, `node2` is drained, `node3` was not heard of for a minute."""
    now = time.time()
    device = DeviceStatus(id="a", host="node1", backend="cpu", type="cpu-2", total_memory_bytes=GIB)
    view = LiveView(
        at=now,
        devices=(msgspec.structs.replace(device, residents=(ResidentStatus(job=7, attempt=1),)),),
        hosts=(HostStatus("node1", now), HostStatus("node2", now, "new driver"), HostStatus("node3", now - 60, "fan")),
    )
    endpoint.stream.picture = msgspec.json.encode(view)
    return endpoint


def requests(endpoint: Endpoint) -> list[tuple[str, dict[str, str]]]:
    return [(request.verb, request.body) for request in endpoint.store.requests(9)]


async def test_a_silent_host_is_silent_even_if_it_is_drained(fleet: Endpoint) -> None:
    status, found = await fleet.get("/api/v1/hosts")
    assert status == 200
    assert [(host["name"], host["state"], host["devices"], host["jobs"]) for host in found] == [
        ("node1", "ok", 1, [7]),
        ("node2", "drained", 0, []),
        ("node3", "silent", 0, []),
    ]
    assert found[2]["drained"] == "fan"


async def test_requests_are_recorded_for_the_dispatcher(fleet: Endpoint) -> None:
    assert await fleet.post("/api/v1/hosts/node1/drain", {"why": "new disk"}) == (
        202,
        {"host": "node1", "asked": "drain", "jobs": [7]},
    )
    assert (await fleet.post("/api/v1/hosts/node2/resume"))[0] == 202
    assert (await fleet.post("/api/v1/hosts/node3/lost"))[0] == 202
    assert requests(fleet) == [
        ("drain", {"host": "node1", "why": "new disk"}),
        ("resume", {"host": "node2"}),
        ("lost", {"host": "node3", "fenced": False}),
    ]


async def test_a_host_that_reports_cannot_be_reported_lost(fleet: Endpoint) -> None:
    status, body = await fleet.post("/api/v1/hosts/node1/lost")
    assert (status, body["exit_code"]) == (409, 6)
    assert requests(fleet) == []


async def test_an_unknown_host_is_404_and_a_drain_needs_a_reason(fleet: Endpoint) -> None:
    assert (await fleet.post("/api/v1/hosts/node9/resume"))[0] == 404
    assert (await fleet.post("/api/v1/hosts/node1/drain", {"why": ""}))[0] == 422
    assert requests(fleet) == []


async def test_without_the_dispatchers_view_no_host_is_known(endpoint: Endpoint) -> None:
    assert (await endpoint.get("/api/v1/hosts"))[0] == 503


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ((sys.executable, "-c", "import sys; sys.exit('no power at {host}')"), "exit code 1: no power at node3"),
        (("/nonexistent/ipmi",), "cannot be started"),
    ],
)
async def test_nothing_ends_if_the_fence_command_fails(fleet: Endpoint, command: tuple[str, ...], said: str) -> None:
    settings = fleet.context.settings
    fleet.context.settings = replace(settings, api=replace(settings.api, fence_command=command))
    status, body = await fleet.post("/api/v1/hosts/node3/lost")
    assert (status, said in body["detail"]) == (500, True)
    assert requests(fleet) == []


async def test_the_fence_command_gets_the_name_of_the_host(fleet: Endpoint) -> None:
    settings, mark = fleet.context.settings, fleet.settings.home.root / "fenced"
    program = "import pathlib, sys; pathlib.Path(sys.argv[1]).write_text(sys.argv[2])"
    command = (sys.executable, "-c", program, str(mark), "{host}")
    fleet.context.settings = replace(settings, api=replace(settings.api, fence_command=command))
    assert (await fleet.post("/api/v1/hosts/node3/lost"))[0] == 202
    assert mark.read_text() == "node3"
    assert requests(fleet) == [("lost", {"host": "node3", "fenced": True})]
