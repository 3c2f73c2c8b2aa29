"""`sinfo`: the hosts, by what their devices do, as the nodes of one partition `gpu`."""

from __future__ import annotations

from collections.abc import Sequence

from gpuq.cli.client import HttpClient, Record
from gpuq.cli.slurm.arguments import SlurmParser

_ROW = "{:<9} {:<5} {:<10} {:>5} {:>5} {}"


def run(words: list[str]) -> int:
    """List the hosts."""
    parser = SlurmParser("sinfo")
    parser.add_argument("-h", "--noheader", action="store_true")
    options = parser.parse_args(words)
    if not options.noheader:
        print(_ROW.format("PARTITION", "AVAIL", "TIMELIMIT", "NODES", "STATE", "NODELIST"))
    for row in rows(HttpClient().get("/api/v1/gpus")):
        print(row)
    return 0


def rows(devices: Sequence[Record]) -> list[str]:
    """A line for each state of hosts."""
    hosts: dict[str, list[Record]] = {}
    for device in devices:
        hosts.setdefault(device["host"], []).append(device)
    states: dict[str, list[str]] = {}
    for host, own in hosts.items():
        states.setdefault(state(own), []).append(host)
    return [
        _ROW.format("gpu*", "up", "infinite", len(names), name, ",".join(sorted(names)))
        for name, names in sorted(states.items())
    ]


def state(devices: Sequence[Record]) -> str:
    """Slurm's word for a host: by whether its devices report, are drained, and have jobs."""
    if not any(device.get("read_at") for device in devices):
        return "down"
    busy = sum(bool(device["residents"]) for device in devices)
    if any(device.get("drained") for device in devices):
        return "drng" if busy else "drain"
    return "idle" if not busy else "alloc" if busy == len(devices) else "mix"
