"""The wall clock of gpuq's processes is set forward and back by an hour while jobs come and go: nothing is late.

wall_clock.c, preloaded, gives the processes of each host a wall clock of their own; those that only count stay.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.fleet import WORKERS, Fleet, uptime
from tests.fleet.rows import Row
from tests.support.site import wait_for

LATE_S = 2.0
LIMIT_S = 3.0
_DROP_IN = """[Service]
Environment=LD_PRELOAD=/srv/wall_clock.so WALL_CLOCK=/srv/wall_clock
"""
_UNITS = ("gpuqd", "gpuq-api", "gpuq-worker")


def step(fleet: Fleet, host: str, seconds: int) -> None:
    """Set the wall clock of gpuq's processes on a host so far from the machine's."""
    with fleet.lab.path(host, "/srv/wall_clock").open("r+b") as file:
        file.write(f"{seconds:+05d}".encode())


@pytest.fixture
def faked(fleet: Fleet) -> Iterator[Fleet]:
    restart = f"systemctl daemon-reload; systemctl try-restart {' '.join(_UNITS)}"
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler, for wall_clock.c")
    for host in WORKERS:
        library = fleet.lab.path(host, "/srv/wall_clock.so")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, Path(__file__).with_name("wall_clock.c")], check=True)
        fleet.lab.path(host, "/srv/wall_clock").write_bytes(b"+0000".ljust(32, b"\0"))
        drop_ins = "".join(
            f"cat >/etc/systemd/system/{unit}.service.d/clock.conf <<'END'\n{_DROP_IN}END\n" for unit in _UNITS
        )
        fleet.shell(host, drop_ins + restart)
    fleet.start()
    yield fleet
    for host in WORKERS:
        fleet.shell(host, f"rm /etc/systemd/system/gpuq*.service.d/clock.conf; {restart}")
    fleet.start()


def waits(fleet: Fleet, chance: random.Random, *, steps: bool) -> dict[str, float]:
    """How long jobs waited for their starts, and how long their ends took to be recorded; with `steps` clocks are set meanwhile.

    Some jobs run at the step, one of them until its time limit, and some are submitted after it.
    """
    before = [fleet.submit(chance.uniform(0.5, 3.0)) for _ in range(4)]
    limited = fleet.submit(60, time_limit_s=LIMIT_S)
    wait_for(lambda: limited in fleet.runs([limited]), 20)
    time.sleep(chance.uniform(0.0, 1.0))
    for host in chance.sample(WORKERS, chance.choice((1, 3))):
        seconds = chance.choice((-3600, 0, 3600))
        if steps:
            step(fleet, host, seconds)
    submitted = {}
    for _ in range(4):
        time.sleep(chance.uniform(0.0, 0.5))
        submitted_at = uptime()
        submitted[fleet.submit(0.5)] = submitted_at
    ended: dict[int, float] = {}
    jobs = [*before, *submitted, limited]

    def all_ended() -> bool:
        for (job,) in fleet.sql("SELECT id FROM jobs WHERE id = ANY(%s) AND state IN ('COMPLETED', 'TIMEOUT')", jobs):
            ended.setdefault(job, uptime())
        return len(ended) == len(jobs)

    wait_for(all_ended, 60, lambda: str(fleet.sql("SELECT id, state FROM jobs WHERE id = ANY(%s)", jobs)))
    wrong = fleet.faults([*before, *submitted])
    assert not wrong, wrong
    runs = {job: found[0] for job, found in fleet.runs(jobs).items()}
    return {
        "start_s": max(runs[job].started - at for job, at in submitted.items()),
        "end_s": max(ended[job] - runs[job].last for job in jobs),
        "limit_s": runs[limited].last - runs[limited].started,
    }


def a_step(fleet: Fleet, chance: random.Random) -> dict[str, Any]:
    """By how much jobs were later with steps of the clocks than without, on the same busy machine."""
    same = chance.random()
    plain = waits(fleet, random.Random(same), steps=False)
    stepped = waits(fleet, random.Random(same), steps=True)
    late = {f"{name[:-2]}_late_s": round(stepped[name] - plain[name], 2) for name in plain}
    return {**late, **{name: round(value, 2) for name, value in stepped.items()}}


@pytest.mark.short_form(3)
def test_clock_steps(faked: Fleet, row: Row) -> None:
    late = dict.fromkeys(("start_late_s", "end_late_s", "limit_late_s"), LATE_S)
    row.repeat(lambda chance, _: a_step(faked, chance), p99=late)
