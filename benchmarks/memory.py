"""The dispatcher's memory with 10,000 jobs known, as they came in and again after a restart, and what it has imported.

RSS and PSS are the kernel's (`smaps_rollup`). The jobs are of 200 kinds and wait behind one that holds the device.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from redis import Redis

from benchmarks.site import Gpuq, wait_for
from benchmarks.table import Row

JOBS, KINDS = 10_000, 200
_HEAVY = ("tensorflow", "keras", "sklearn", "scipy", "pandas")
_IMPORTED = f"import gpuq.daemon.main, sys; print(sum(name in sys.modules for name in {_HEAVY!r}))"


def run() -> list[Row]:
    """Sizes in MiB."""
    with Gpuq() as gpuq:
        busy = gpuq.submit({"command": ["sleep", "3600"]})[0]
        wait_for(lambda: gpuq.state(busy) == "RUNNING", 60)
        idle = sizes(gpuq.pid("gpuq.daemon"))
        gpuq.submit(*(_job(number) for number in range(JOBS)))
        _wait_until_all_wait(gpuq)
        first = gpuq.pid("gpuq.daemon")
        grown = sizes(first)
        os.kill(first, signal.SIGKILL)
        restored = sizes(wait_for(lambda: _at_work_again(gpuq, first), 60, every_s=0.5))
    done = subprocess.run([sys.executable, "-c", _IMPORTED], check=True, capture_output=True, text=True)
    largest = max(grown["Rss"], restored["Rss"])
    return [
        Row(f"dispatcher, RSS with {JOBS:,} jobs known", largest, "MiB", 120, note="the larger of the two below"),
        *(
            Row(f"  {when}, RSS", found["Rss"], "MiB", note=f"PSS {found['Pss']:.0f}")
            for when, found in (("one job", idle), ("as they came in", grown), ("after a restart", restored))
        ),
        Row(f"dispatcher, of {', '.join(_HEAVY)} imported", float(done.stdout), "modules", 0),
    ]


def _job(number: int) -> dict[str, Any]:
    words = ["--epochs", "10", "--data", f"/data/set-{number}"]
    return {"command": ["/usr/bin/python3", f"/srv/train_{number % KINDS}.py", *words], "name": f"train {number}"}


def _wait_until_all_wait(gpuq: Gpuq) -> None:
    """Until the dispatcher's own picture of the queue has the last one in it."""
    last = JOBS + 1
    wait_for(lambda: gpuq.get(f"/api/v1/jobs/{last}").get("verdict"), 120, every_s=0.5)
    wait_for(lambda: gpuq.get(f"/api/v1/jobs/{last}").get("position") == JOBS, 120, every_s=0.5)


def _at_work_again(gpuq: Gpuq, first: int) -> int | None:
    """The new dispatcher, once it has made some passes over what it read from the record."""
    with Redis(unix_socket_path=str(gpuq.home.redis_socket)) as redis:
        view = json.loads(redis.get("gpuq:view") or "{}")
    now = view.get("dispatcher", {})
    return int(now["pid"]) if now and now["pid"] != first and now["passes"] >= 3 else None


def sizes(pid: int) -> dict[str, float]:
    """RSS and PSS in MiB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    kilobytes = {name: int(value.split()[0]) for name, _, value in (line.partition(":") for line in lines)}
    return {name: kilobytes[name] / 1024 for name in ("Rss", "Pss")}
