"""Hosts that joined, and hosts that are forgotten."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from msgspec.structs import replace

from gpuq.adapters.store.contract import Store
from gpuq.adapters.store.row_types import Commit, JoinedHost
from gpuq.core.state.device import Device, DeviceId, HostId

INVITED = JoinedHost(host="node2", digest="d1", invited_until=100.5)
JOINED = replace(INVITED, serial="1f", certified_until=1e9 + 0.25, renew=True)
DEVICE = Device(DeviceId("gpu0"), HostId("node2"), "sim", "A", 2**40)


def test_a_row_changes_only_from_what_was_read(store: Store) -> None:
    assert store.joined_host("node2") is store.joined_host("node2\0") is None
    assert store.replace_joined_host(None, INVITED)
    assert not store.replace_joined_host(None, replace(INVITED, digest="d2")), "there is one already"
    assert store.replace_joined_host(INVITED, JOINED)
    assert not store.replace_joined_host(INVITED, replace(JOINED, serial="2f")), "it changed meanwhile"
    assert store.joined_host("node2") == JOINED
    assert not store.replace_joined_host(INVITED, None)
    assert store.replace_joined_host(JOINED, None)
    assert store.joined_host("node2") is None


def test_of_many_uses_of_one_invitation_one_succeeds(store: Store) -> None:
    store.replace_joined_host(None, INVITED)
    together = Barrier(4)

    def join(number: int) -> bool:
        together.wait()
        return store.replace_joined_host(INVITED, replace(INVITED, serial=str(number)))

    with ThreadPoolExecutor(4) as threads:
        assert sorted(threads.map(join, range(4))) == [False, False, False, True]


def test_a_forgotten_host_leaves_the_types_of_its_devices(store: Store) -> None:
    other = replace_host(DEVICE, "gpu1", "node3")
    store.commit(
        Commit(devices=[DEVICE, other], hosts={"node2": ("b", 3), "node3": ("b", 1)}, drained={"node2": "old"})
    )
    store.lease_host("node2", "home")
    store.replace_joined_host(None, INVITED)

    store.commit(Commit(forgotten=["node2"]))

    assert (store.devices(forgotten=False), store.devices()) == ([other], [DEVICE, other])
    assert (store.hosts(), store.drained(), store.joined_host("node2")) == ({"node3": ("b", 1)}, {}, None)
    assert store.lease_host("node2", "another home").instance == "another home"

    store.commit(Commit(devices=[DEVICE]))
    assert store.devices(forgotten=False) == [DEVICE, other], "it reports again"


def replace_host(device: Device, name: str, host: str) -> Device:
    return Device(DeviceId(name), HostId(host), device.backend, device.type, device.total_memory)
