"""Two machines with one host name, as after a disk image was copied: no job starts twice, and the second machine is refused."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path

from tests.support import services
from tests.support.cloned_hosts import ClonedHosts
from tests.support.site import Site


async def doubles(folder: Path, seeds: range, steps: int) -> list[int]:
    """The seeds of the interleavings in which a job was started twice."""
    found, starts = [], 0
    for seed in seeds:
        world = ClonedHosts(folder / str(seed), seed)
        await world.run(steps)
        starts += world.starts.total()
        if max(world.starts.values(), default=0) > 1:
            found.append(seed)
        shutil.rmtree(folder / str(seed))
    assert starts > len(seeds) / 4, "hardly any job started"
    return found


async def test_no_job_starts_twice_under_one_host_name(tmp_path: Path) -> None:
    assert await doubles(tmp_path, range(100), 20) == []


def test_a_second_worker_service_under_the_same_host_name_is_refused(site: Site, tmp_path: Path) -> None:
    shutil.copy(site.home / "order.key", tmp_path)
    env = {**site.env, "GPUQ_HOME": str(tmp_path), "GPUQ_DATABASE_URL": f"sqlite:///{site.home}/gpuq.db"}
    output = tmp_path / "said"
    assert services.started("gpuq_workers", output, env=env).wait(60) == 6
    said = output.read_text()
    assert f"runs the worker service of host {socket.gethostname()}" in said
    assert "Set another `host` under [worker]" in said
    assert "Traceback" not in said
    assert site.wait(site.submit("true"))["state"] == "COMPLETED", "the first one goes on"
