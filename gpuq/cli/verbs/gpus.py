"""`gpuq gpus`: a line per device with the jobs on it, in the style of gpustat."""

from __future__ import annotations

from collections.abc import Sequence

from gpuq import format as fmt
from gpuq.cli import console
from gpuq.cli.arguments import Parser, add_json_lines
from gpuq.cli.client import HttpClient, Record

_BAR = 8
# Names of this length still distinguish jobs, so columns are dropped before names are cut further.
_SHORT_NAME = 8


def run(words: list[str]) -> int:
    """List devices."""
    parser = Parser("gpus", "Devices, and who is on them.\nPROMISED: memory that its jobs may grow into.")
    add_json_lines(parser, "device")
    options = parser.parse_args(words)
    devices: list[Record] = HttpClient.of(options).get("/api/v1/gpus")
    if options.json or devices:
        console.show(options, devices, screen)
    else:
        console.note("No device is known yet: no worker has reported. `gpuq doctor` says what is missing.")
    return 0


def screen(devices: Sequence[Record], width: int, colour: bool) -> list[str]:
    """A heading for each group of equal devices on a host, and a line for each device."""
    foreign = any(device.get("foreign_memory_bytes") for device in devices)
    powered = any(device.get("power_watts") is not None for device in devices)
    rows = [_row(device, colour, foreign, powered) for device in devices]
    columns = [
        console.Column("DEVICE"),
        *([console.Column("", luxury=True)] if colour else []),
        console.Column("UTIL", right=True),
        console.Column("MEMORY", right=True),
        console.Column("PROMISED", right=True, give_up=2),
        *([console.Column("FOREIGN", right=True)] if foreign else []),
        *([console.Column("POWER", right=True, give_up=1)] if powered else []),
    ]
    # JOBS is as wide as all residents with short names, as far as the columns that are never dropped leave it.
    staying = [i for i, column in enumerate(columns) if not (column.give_up or column.luxury)]
    taken = sum(1 + max(len(cell) for cell in (columns[i].title, *(row[i] for row in rows))) for i in staying)
    wanted = max(len(_residents(device, _SHORT_NAME)) for device in devices)
    columns.append(console.Column("JOBS", least=max(12, min(wanted, width - taken))))
    styles = [_style(device) for device in devices] if colour else []
    header, *table = console.table(columns, rows, width, styles)
    lines: list[str] = []
    heading = None
    for device, line in zip(devices, table, strict=True):
        if (own := _group(device)) != heading:
            heading = own
            lines += [*([""] if lines else []), *console.wrapped(_heading(heading, devices), width), header]
        lines.append(line)
    for device in devices:
        name = fmt.clean(device["name"])
        if device.get("unwell"):
            lines += console.wrapped(f"{name} gets no new jobs: {fmt.clean(device['unwell'])}", width)
        if device.get("drained"):
            lines += console.wrapped(
                f"{name} gets no new jobs, its host is drained: {fmt.clean(device['drained'])}", width
            )
        if device.get("no_starts"):
            why = f"{name} gets no new jobs, its host can start none: {fmt.clean(device['no_starts'])}"
            lines += console.wrapped(why, width)
        if device.get("reserved_for") is not None:
            lines += console.wrapped(f"{name} is kept free for job {device['reserved_for']}", width)
        if device.get("throttling"):
            reasons = ", ".join(fmt.clean(reason).replace("_", " ") for reason in device["throttling"])
            lines += console.wrapped(f"{name} runs at lower clocks: {reasons}", width)
    return lines


def _group(device: Record) -> tuple[str, str, int, str | None]:
    return device["host"], device["kind"], device["total_memory_bytes"], device.get("sharing")


def _heading(group: tuple[str, str, int, str | None], devices: Sequence[Record]) -> str:
    """`node2: 8 x NVIDIA H100 80GB HBM3, 79.6 GiB each, shared by time-slicing`."""
    host, kind, total, sharing = group
    count = sum(_group(device) == group for device in devices)
    where = f"{fmt.clean(host)}: " if len({device["host"] for device in devices}) > 1 else ""
    many, each = (f"{count} x ", " each") if count > 1 else ("", "")
    how = ", one process at a time" if sharing == "exclusive" else f", shared by {sharing}" if sharing else ""
    return f"{where}{many}{fmt.clean(kind)}, {fmt.gib(total)}{each}{how}"


def _row(device: Record, with_bar: bool, with_foreign: bool, with_power: bool) -> tuple[str, ...]:
    utilization, power = device.get("utilization_pct"), device.get("power_watts")
    total, foreign = device["total_memory_bytes"], device.get("foreign_memory_bytes")
    return (
        fmt.clean(device["name"]),
        *([console.bar(None if utilization is None else utilization / 100, _BAR)] if with_bar else []),
        fmt.percent(utilization),
        f"{_gib(device.get('used_memory_bytes')).removesuffix('G')}/{_gib(total)}",
        _gib(device.get("promised_memory_bytes")),
        *(["-" if foreign == 0 else _gib(foreign)] if with_foreign else []),
        *(["?" if power is None else f"{power:.0f}W"] if with_power else []),
        _jobs(device),
    )


def _jobs(device: Record) -> console.Cell:
    """The residents. On a narrow terminal names are cut and then left out, so that every id is shown."""
    if not device["residents"]:
        return console.Cell("idle" if device.get("read_at") else "not reported")
    ids = ", ".join(str(resident["job"]) for resident in device["residents"])
    forms = [_residents(device, longest) for longest in (200, *range(24, 3, -1), 0)]
    return console.Cell.of(*dict.fromkeys([*forms, ids]))


def _residents(device: Record, longest_name: int) -> str:
    """`42 train.py 9.1G, 43 eval.py 2.0G`, names cut to `longest_name` characters."""
    texts = []
    for resident in device["residents"]:
        name = console.shorten(fmt.clean(resident.get("name") or ""), longest_name) if longest_name else ""
        memory = None if resident.get("memory_bytes") is None else fmt.gib(resident["memory_bytes"], "G")
        texts.append(" ".join(filter(None, (str(resident["job"]), name, memory))))
    return ", ".join(texts)


def _gib(value: float | None) -> str:
    return "?" if value is None else fmt.gib(value, "G")


def _style(device: Record) -> str | None:
    if device.get("utilization_pct") is None or device.get("unwell"):
        return "31"
    return "32" if device["residents"] else None
