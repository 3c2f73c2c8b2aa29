"""Reads what the profilers of TensorFlow and PyTorch write, as an `OpProfile`.

A file is recognised by its content: TensorFlow's `*.xplane.pb`; a trace for a trace viewer (`*.trace.json`, of either
framework); TensorBoard's framework op statistics (`framework_op_stats` as JSON or CSV); PyTorch's `key_averages()` as the
printed table or as JSON rows; a profile of gpuq. Any of them may be gzipped. A damaged or foreign file raises `BadInput` with
what is wrong.
"""

from __future__ import annotations

import csv
import gzip
import json
import math
import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gpuq.errors import BadInput
from gpuq.learn.transfer import xplane
from gpuq.learn.transfer.profile import IDLE, OpProfile, from_json
from gpuq.learn.transfer.timeline import OpSpan, summed

# A trace of some steps has some megabytes; what unpacks to more is not such a trace.
MOST_BYTES = 2**30
_FIX = "Give a trace of TensorFlow's or PyTorch's profiler; docs/learning.md lists the forms."
_DEVICE_CATEGORIES = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
_UNITS_US = {"ns": 1e-3, "us": 1.0, "μs": 1.0, "ms": 1e3, "s": 1e6}
_SELF_HOST = ("self_cpu_time_total", "self cpu")
_SELF_DEVICE = ("self_device_time_total", "self_cuda_time_total", "self cuda", "self xpu", "self device")

Rows = Sequence[Mapping[str, Any]]


def read(path: Path) -> OpProfile:
    """The profile in this file. Raises BadInput, and OSError where it cannot be read."""
    raw = path.read_bytes()
    if raw[:2] == b"\x1f\x8b":
        try:
            with gzip.open(path) as file:
                raw = file.read(MOST_BYTES + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise BadInput(f"{path} is a damaged gzip file: {error}.", fix=_FIX) from error
    if len(raw) > MOST_BYTES:
        raise BadInput(f"{path} holds more than a gibibyte.", fix="Record fewer steps.")
    try:
        found = _recognised(raw, path.name)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError, csv.Error) as error:
        raise BadInput(f"{path} is damaged or of no known form: {error}.", fix=_FIX) from error
    if not found.ops_us:
        raise BadInput(f"{path} holds no op with any time.", fix="Record some training steps, not only the start.")
    return found


def _recognised(raw: bytes, name: str) -> OpProfile:
    if raw[:1024].lstrip()[:1] in (b"{", b"["):
        value = json.loads(raw)
        if isinstance(value, dict) and "device_us" in value:
            return from_json(raw, name=name)
        if isinstance(value, dict) and "traceEvents" in value:
            return _trace(value["traceEvents"])
        tables = value if isinstance(value, list) else [value]
        if not tables or not all("cols" in table and "rows" in table for table in tables):
            return _averages(tables)
        # Tables in the format of Google Charts.
        rows: list[dict[str, Any]] = []
        for table in tables:
            columns = [column["id"] for column in table["cols"]]
            rows += [dict(zip(columns, (cell["v"] for cell in row["c"]), strict=False)) for row in table["rows"]]
        return _statistics(rows)
    if name.endswith((".pb", ".pb.gz")):
        return OpProfile(framework="tensorflow", **summed(list(xplane.spans(raw))))
    text = raw.decode("utf-8")
    if "Self CPU" in text:
        return _averages(_printed(text.splitlines()))
    return _statistics(list(csv.DictReader(text.splitlines())))


# --- traces for a trace viewer -------------------------------------------------------------------------------------


def _trace(events: Rows) -> OpProfile:
    """A trace of either framework: PyTorch's events have categories, TensorFlow's processes have names."""
    whole = [event for event in events if event.get("ph") == "X"]
    if any(event.get("cat") == "cpu_op" for event in whole):
        return OpProfile(framework="pytorch", **summed(list(_torch_spans(whole))))
    processes = {event["pid"]: event["args"]["name"] for event in events if event.get("name") == "process_name"}
    return OpProfile(framework="tensorflow", **summed(list(_tensorflow_spans(whole, processes))))


def _torch_spans(events: Rows) -> Iterator[OpSpan]:
    """Host ops as they are; kernels under the op that launched them, which has the same external id."""
    launched_by = {
        event["args"]["External id"]: event["name"]
        for event in events
        if event.get("cat") == "cpu_op" and "External id" in event.get("args", {})
    }
    for event in events:
        category = event.get("cat")
        if category == "cpu_op":
            yield _span(event, str(event["name"]), on_device=False)
        elif category in _DEVICE_CATEGORIES:
            op = launched_by.get(event.get("args", {}).get("External id"), event["name"])
            yield _span(event, str(op), on_device=True)


def _tensorflow_spans(events: Rows, processes: Mapping[Any, str]) -> Iterator[OpSpan]:
    for event in events:
        process = str(processes.get(event.get("pid"), ""))
        name, arguments = str(event.get("name", "")), event.get("args") or {}
        if process.startswith("/device:"):
            op = xplane.op_type(str(arguments.get("tf_op", ""))) or arguments.get("tf_op")
            if op:
                yield _span(event, str(op), on_device=True)
        elif process.startswith("/host:"):
            op = xplane.op_type(str(arguments.get("long_name", name))) or xplane.op_type(name)
            if op:
                yield _span(event, op, on_device=False)


def _span(event: Mapping[str, Any], op: str, *, on_device: bool) -> OpSpan:
    line = (str(event.get("pid")), str(event.get("tid")))
    return OpSpan(op, on_device, line, _time(event["ts"]), _time(event.get("dur", 0.0)))


# --- tables --------------------------------------------------------------------------------------------------------


def _statistics(rows: Rows) -> OpProfile:
    """TensorBoard's framework op statistics: a row per op, on host or device, with its own total time."""
    times: dict[str, dict[str, float]] = {"device": defaultdict(float), "host": defaultdict(float)}
    for row in rows:
        cells = {re.sub(r"[^a-z]", "", str(key).lower()): value for key, value in row.items()}
        side = str(cells.get("hostordevice", cells.get("hostdevice", ""))).strip().lower()
        kind = str(cells.get("type", cells.get("optype", ""))).strip()
        own = cells.get("totalselftime", cells.get("totalselftimeus"))
        if side not in times or not kind or own is None:
            raise ValueError("a row names no side, type or total self-time")
        times[side][kind] += _time(own)
    device, host = dict(times["device"]), dict(times["host"])
    return OpProfile(
        framework="tensorflow",
        device_idle_us=device.pop(IDLE, None),
        device_us=device,
        host_idle_us=host.pop(IDLE, None),
        host_us=host,
    )


def _averages(rows: Iterable[Mapping[str, Any]]) -> OpProfile:
    """PyTorch's averages: a row per op with its own time on the host, and on the device if there was one."""
    device: dict[str, float] = defaultdict(float)
    host: dict[str, float] = defaultdict(float)
    for row in rows:
        cells = {str(key).lower(): value for key, value in row.items()}
        name = str(cells["key"] if "key" in cells else cells["name"]).strip()
        host[name] += _first(cells, _SELF_HOST) or 0.0
        device[name] += _first(cells, _SELF_DEVICE) or 0.0
    return OpProfile(framework="pytorch", device_us=_some(device), host_us=_some(host))


def _printed(lines: Sequence[str]) -> Iterator[dict[str, str]]:
    """The rows of a table as `key_averages().table()` prints it: between rules, cells at least two spaces apart."""
    rules = [i for i, line in enumerate(lines) if re.fullmatch(r"[-\s]+", line) and "---" in line]
    if len(rules) < 3:
        raise ValueError("the table has no end")
    names = re.split(r"\s{2,}", lines[rules[0] + 1].strip())
    for line in lines[rules[1] + 1 : rules[2]]:
        yield dict(zip(names, re.split(r"\s{2,}", line.strip()), strict=True))


def _first(cells: Mapping[str, Any], names: Sequence[str]) -> float | None:
    return next((_time(cells[name]) for name in names if cells.get(name) not in (None, "")), None)


def _some(times: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in times.items() if value > 0}


def _time(value: Any) -> float:
    """Microseconds, from a number or text such as `1.5ms`. Raises ValueError for anything else."""
    if isinstance(value, str):
        found = re.fullmatch(r"\s*([\d.,]+(?:[eE][+-]?\d+)?)\s*(ns|us|μs|ms|s)?\s*", value)
        if not found:
            raise ValueError(f"{value[:40]!r} is no time")
        value = float(found[1].replace(",", "")) * _UNITS_US[found[2] or "us"]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise ValueError(f"{value!r} is no time")
    return float(value)
