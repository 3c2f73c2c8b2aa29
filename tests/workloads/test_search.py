"""`workloads/search.py` on a whole gpuq: Optuna's trials are real jobs."""

from __future__ import annotations

import json

import pytest

from tests.support.site import Site
from workloads import search


def test_trials_are_jobs_and_the_best_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Site(devices_cpu_count=2, admission_memory_headroom=0.95) as site:
        monkeypatch.setenv("GPUQ_HOME", str(site.home))
        assert search.main(["--trials", "3", "--at-once", "2", "--steps", "20"]) == 0
        jobs = site.get("/api/v1/jobs?project=search&state=ended")[1]["jobs"]
        logs = [site.get(f"/api/v1/jobs/{job['id']}/logs")[1].decode() for job in jobs]
    said = capsys.readouterr().out.splitlines()
    losses = [float(line.split("loss ")[1].split(",")[0]) for line in said[:-1]]
    assert len(jobs) == 3
    # What Optuna proposes depends on which trial ends first, and one with a high learning rate may diverge: it is pruned.
    ends = [json.loads(log.splitlines()[-1])["loss_last"] for log in logs]
    assert sorted(losses) == sorted(round(loss, 4) for loss in ends if loss is not None)
    assert said[-1].startswith("best of 3: trial ")
    assert f"loss {min(losses):.4f}" in said[-1]
