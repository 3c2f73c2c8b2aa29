"""`gpuq gpus`: one line per device and who is on it, as gpustat does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
    powered = any(device.get("power_watts") is not None for device in devices)
    columns = [
        fmt.Column("DEVICE"),
        fmt.Column("KIND", least=8),
        *([fmt.Column("", luxury=True)] if colour else []),
        fmt.Column("UTIL", right=True),
        fmt.Column("MEMORY", right=True),
        fmt.Column("PROMISED", right=True, give_up=1),
        *([fmt.Column("FOREIGN", right=True)] if foreign else []),
        *([fmt.Column("POWER", right=True, give_up=2)] if powered else []),
        fmt.Column("JOBS", least=12),
    ]
    several = len({device["host"] for device in devices}) > 1
    rows = [_row(device, several, colour, foreign, powered) for device in devices]
    styles = [_style(device) for device in devices] if colour else []
    return [*fmt.table(columns, rows, width, styles), *_remarks(devices, width)]


def _remarks(devices: Sequence[Record], width: int) -> Iterator[str]:
    """What is wrong with a device, or keeps it from its full speed."""
    for device in devices:
        name = fmt.device_name(device["id"])
        if device.get("unwell"):
            yield from fmt.wrapped(f"{name} gets no new jobs: {fmt.clean(device['unwell'])}", width)
        if device.get("throttling"):
            reasons = ", ".join(fmt.clean(reason).replace("_", " ") for reason in device["throttling"])
            yield from fmt.wrapped(f"{name} runs at lower clocks: {reasons}", width)


def _row(device: Record, several_hosts: bool, with_bar: bool, with_foreign: bool, with_power: bool) -> tuple[str, ...]:
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
        *([_watts(device.get("power_watts"))] if with_power else []),
        "  ".join(_resident(resident) for resident in device["residents"]) or "idle",
    )


def _gib(value: float | None) -> str:
    return "?" if value is None else fmt.gib(value, "G")


def _foreign(value: float | None) -> str:
    return "-" if not value else fmt.gib(value, "G")


def _watts(value: float | None) -> str:
    return "?" if value is None else f"{value:.0f}W"


def _resident(resident: Record) -> str:
    name = f" {fmt.clean(resident['name'])}" if resident.get("name") else ""
    memory = f" {fmt.gib(resident['memory_bytes'], 'G')}" if resident.get("memory_bytes") is not None else ""
    return f"{resident['job']}{name}{memory}"


def _style(device: Record) -> str | None:
    if device.get("utilization_pct") is None or device.get("unwell"):
        return "31"
    return "32" if device["residents"] else None
