"""Rolling upgrades from the previous release with jobs running, and back: releases lie side by side, and units are switched."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.fleet.fleet import HOME, WORKERS, Fleet
from tests.fleet.rows import ROOT, Row
from tests.support.site import wait_for

PREVIOUS = "717bfb4"
"""The commit of release 0.1.0."""
PREVIOUS_SCHEMA = "0005"
JOBS = 16
SWITCHED_WITHIN_S = 300
"""An upgrade of the record and the start of three services take a minute of a very busy machine."""
NEW, OLD = "/opt/gpuq", "/opt/gpuq-previous"
_SOURCE = {NEW: "/opt/gpuq-src", OLD: f"{OLD}/src"}
_DOWNGRADE = (
    f"runuser -u gpuq -- env $(grep DATABASE /etc/gpuq/environment) GPUQ_HOME={HOME} {NEW}/bin/python -c "
    "'from gpuq.adapters.store.migrate import downgrade; from gpuq.settings import load; downgrade(load().database_url, "
    f'"{PREVIOUS_SCHEMA}")\''
)


def install_previous(fleet: Fleet, host: str) -> None:
    """The previous release beside this one, as the lab installs this one: an environment whose path file names its sources."""
    prefix = fleet.lab.path(host, OLD)
    shutil.copytree(fleet.lab.path(host, NEW), prefix, symlinks=True)
    source = prefix / "src"
    source.mkdir()
    archive = subprocess.run(
        ["git", "archive", PREVIOUS, "gpuq", "workers", "migrations", "systemd"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    subprocess.run(["tar", "-x", "-C", source], input=archive.stdout, check=True)
    libraries = prefix / "lib/python3.11/site-packages"
    (libraries / "gpuq.pth").write_text(
        f"{OLD}/src\n{OLD}/src/workers\n/opt/gpuq-src/.venv/lib/python3.11/site-packages\n"
    )
    command = prefix / "bin/gpuq"
    command.write_text(command.read_text().replace(f"{NEW}/", f"{OLD}/"))
    subprocess.run(["chmod", "-R", "a+rX", prefix], check=True)


def switch(fleet: Fleet, host: str, prefix: str, *units: str) -> None:
    """Let the units of a host run another release, and restart these."""
    render = f"/usr/bin/python3.11 -B {_SOURCE[prefix]}/systemd/render.py --prefix {prefix} --out /etc/systemd/system"
    restart = f"{render} >/dev/null; systemctl daemon-reload; systemctl restart {' '.join(units)}"
    fleet.shell(host, restart, within_s=SWITCHED_WITHIN_S)


def downgraded(fleet: Fleet) -> None:
    """The previous release everywhere, with a record of its schema. It has one dispatcher and one API; jobs run on."""
    for host in WORKERS:
        fleet.shell(host, "systemctl stop gpuq-api.socket gpuqd gpuq-api gpuq-worker")
    fleet.shell("main", _DOWNGRADE, within_s=SWITCHED_WITHIN_S)
    switch(fleet, "main", OLD, "gpuqd", "gpuq-api", "gpuq-worker")
    for host in ("standby", "node"):
        switch(fleet, host, OLD, "gpuq-worker")


def upgraded(fleet: Fleet) -> None:
    """One host after the other gets this release, the dispatcher first, as docs/operations.md has it."""
    switch(fleet, "main", NEW, "gpuqd", "gpuq-api", "gpuq-worker")
    switch(fleet, "standby", NEW, "gpuqd", "gpuq-api", "gpuq-worker")
    switch(fleet, "node", NEW, "gpuq-worker")


@pytest.fixture
def releases(fleet: Fleet) -> Iterator[Fleet]:
    """Both releases on all hosts, with what the previous one needs: one address of the database, and one key for all."""
    key = fleet.shell("main", f"cat {HOME}/order.key")
    address = f"postgresql://gpuq:pw@{fleet.lab.address(fleet.database)}/gpuq"
    for host in WORKERS:
        install_previous(fleet, host)
        fleet.shell(
            host,
            f"cp -p /etc/gpuq/environment /etc/gpuq/environment.kept; echo GPUQ_DATABASE_URL={address} >>/etc/gpuq/environment",
        )
        fleet.shell(
            host, f"rm -f {HOME}/host.key; install -m 600 -o gpuq -g gpuq /dev/stdin {HOME}/order.key", stdin=key
        )
    yield fleet
    for host in WORKERS:
        fleet.shell(host, "mv /etc/gpuq/environment.kept /etc/gpuq/environment")
    upgraded(fleet)


def a_roll(fleet: Fleet, chance: random.Random) -> dict[str, Any]:
    """Jobs that run during the upgrade, jobs that are submitted in it, and jobs that run during the way back."""
    downgraded(fleet)
    jobs = [fleet.submit(chance.uniform(5, 25), chance.randrange(8), hosts=["main"]) for _ in range(JOBS)]
    wait_for(lambda: len(fleet.runs(jobs)) == JOBS, 60, lambda: str(fleet.get("/api/v1/jobs?state=waiting")))
    upgraded(fleet)
    later = [fleet.submit(chance.uniform(0.2, 15), chance.randrange(8)) for _ in range(4)]
    fleet.wait(jobs)
    wait_for(lambda: len(fleet.runs(later)) == len(later), 60)
    downgraded(fleet)
    fleet.wait(later)
    wrong = fleet.faults([*jobs, *later])
    assert not wrong, wrong
    return {"jobs": len(jobs), "back": len(later)}


@pytest.mark.short_form(1)
def test_rolling_upgrades(releases: Fleet, row: Row) -> None:
    row.repeat(lambda chance, _: a_roll(releases, chance))
