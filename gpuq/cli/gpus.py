"""`gpuq gpus`: one line per device and who is on it, as gpustat does."""

from __future__ import annotations

from collections.abc import Sequence

from gpuq.cli import format as fmt
from gpuq.cli.arguments import Parser
from gpuq.cli.client import Client, Record, print_json, talk

_BAR = 8


def run(words: list[str]) -> int:
    """List devices."""
    parser = Parser("gpus", "Devices, and who is on them.\nPROMISED: memory that its jobs may grow into.")
    options = parser.parse_args(words)
    devices: list[Record] = Client.of(options).get("/api/v1/gpus")
    if options.json:
        print_json(devices)
    elif devices:
        print("\n".join(screen(devices, fmt.terminal_width(), fmt.coloured(options.no_color))))
    else:
        talk("No device is known yet: no worker has reported. `gpuq doctor` says what is missing.")
    return 0


def screen(devices: Sequence[Record], width: int, colour: bool) -> list[str]:
    """The table's lines."""
    foreign = any(device.get("foreign_memory_bytes") for device in devices)
    columns = [
        fmt.Column("DEVICE"),
        fmt.Column("KIND", least=8),
        *([fmt.Column("", luxury=True)] if colour else []),
        fmt.Column("UTIL", right=True),
        fmt.Column("MEMORY", right=True),
        fmt.Column("PROMISED", right=True, give_up=1),
        *([fmt.Column("FOREIGN", right=True)] if foreign else []),
        fmt.Column("JOBS", least=12),
    ]
    several = len({device["host"] for device in devices}) > 1
    rows = [_row(device, several, colour, foreign) for device in devices]
    styles = [_style(device) for device in devices] if colour else []
    return fmt.table(columns, rows, width, styles)


def _row(device: Record, several_hosts: bool, with_bar: bool, with_foreign: bool) -> tuple[str, ...]:
    short = fmt.device_name(device["id"])
    name = f"{fmt.clean(device['host'])}/{short}" if several_hosts else short
    utilization = device.get("utilization_pct")
    total = device["total_memory_bytes"]
    return (
        name,
        fmt.clean(device["kind"]),
        *([fmt.bar(None if utilization is None else utilization / 100, _BAR)] if with_bar else []),
        fmt.percent(utilization),
        f"{_gib(device.get('used_memory_bytes')).removesuffix('G')}/{_gib(total)}",
        _gib(device.get("promised_memory_bytes")),
        *([_foreign(device.get("foreign_memory_bytes"))] if with_foreign else []),
        "  ".join(_resident(resident) for resident in device["residents"]) or "idle",
    )


def _gib(value: float | None) -> str:
    return "?" if value is None else fmt.gib(value, "G")


def _foreign(value: float | None) -> str:
    return "-" if not value else fmt.gib(value, "G")


def _resident(resident: Record) -> str:
    name = f" {fmt.clean(resident['name'])}" if resident.get("name") else ""
    memory = f" {fmt.gib(resident['memory_bytes'], 'G')}" if resident.get("memory_bytes") is not None else ""
    return f"{resident['job']}{name}{memory}"


def _style(device: Record) -> str | None:
    if device.get("utilization_pct") is None:
        return "31"
    return "32" if device["residents"] else None
