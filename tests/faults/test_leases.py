"""Jobs with --requeue while networks are cut: none ever runs twice at a time, and each starts elsewhere in time."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.support.leased_hosts import LeasedHosts


async def survive(folder: Path, seed: int, cuts: int) -> LeasedHosts:
    logging.disable(logging.ERROR)
    try:
        hosts = LeasedHosts(folder, seed, lease_s=10.0)
        await hosts.run(cuts)
    finally:
        logging.disable(logging.NOTSET)
    assert hosts.overlaps == []
    assert set(hosts.harness.states().values()) == {"RUNNING"}
    assert sum(map(len, hosts.running.values())) == 2
    return hosts


async def test_jobs_with_requeue_run_once_at_a_time_over_random_cuts(tmp_path: Path) -> None:
    hosts = await survive(tmp_path, seed=1, cuts=12)
    assert hosts.starts > 4, "hardly any job started elsewhere"


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10))
async def test_jobs_with_requeue_run_once_at_a_time_over_3000_cuts(tmp_path: Path, seed: int) -> None:
    await survive(tmp_path, seed, cuts=300)
