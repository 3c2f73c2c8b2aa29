"""Hosts are listed with their state; requests about them are recorded for the dispatcher."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from urllib.parse import quote

import msgspec
import pytest

from gpuq.adapters.store.row_types import Commit, JoinedHost
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


# --- add, forget, rotate -----------------------------------------------------------------------------------------------


def open_to_hosts(fleet: Endpoint) -> None:
    settings = fleet.context.settings
    fleet.context.settings = replace(settings, api=replace(settings.api, hosts_at=("main.example.org:8781",)))


async def test_a_host_can_be_added_once_its_main_host_has_an_address(fleet: Endpoint) -> None:
    status, problem = await fleet.post("/api/v1/hosts/node4/add")
    assert (status, "`hosts_at`" in problem["hint"] + problem["detail"]) == (409, True)
    open_to_hosts(fleet)
    commands = []
    for _ in range(2):
        status, added = await fleet.post("/api/v1/hosts/node4/add")
        assert (status, "main.example.org:8781" in added["command"]) == (201, True)
        commands.append(added["command"])
    assert "\n" not in commands[0]
    assert commands[0] != commands[1], "a new command ends the one before"
    row = fleet.store.joined_host("node4")
    assert row is not None
    assert row.digest not in commands[1]


async def test_a_name_that_is_taken_or_none_is_refused(fleet: Endpoint) -> None:
    open_to_hosts(fleet)
    fleet.store.commit(Commit(hosts={"node1": ("boot", 0)}))
    status, problem = await fleet.post("/api/v1/hosts/node1/add")
    assert (status, "`gpuq host forget node1`" in problem["hint"]) == (409, True)
    for name in ("a b", "a;reboot", "$(id)", "ä", "x" * 65, "'", '"'):
        status, problem = await fleet.post(f"/api/v1/hosts/{quote(name, safe='')}/add")
        assert (status, "is no name for a host" in problem["detail"]) == (422, True)


async def test_a_silent_host_without_jobs_is_forgotten_and_its_certificate_ends(fleet: Endpoint) -> None:
    joined = JoinedHost(host="node3", digest="d", invited_until=0.0, serial="1f")
    fleet.store.replace_joined_host(None, joined)
    assert (await fleet.post("/api/v1/hosts/node1/forget"))[0] == 409
    assert (await fleet.post("/api/v1/hosts/node9/forget"))[0] == 404
    assert (await fleet.post("/api/v1/hosts/node3/rotate"))[0] == 202
    assert fleet.store.joined_host("node3") == msgspec.structs.replace(joined, renew=True)
    assert (await fleet.post("/api/v1/hosts/node1/rotate"))[0] == 404, "it has no certificate"

    assert (await fleet.post("/api/v1/hosts/node3/forget"))[0] == 202
    assert fleet.store.joined_host("node3") is None
    assert requests(fleet) == [("forget", {"host": "node3"})]
