"""What a pilot is requested with."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from gpuq_workers.pilot import settings_of

from gpuq.messages.pilot import PilotOrder
from gpuq.pools.pool import Pool
from gpuq.pools.requests import settings_for
from gpuq.pools.slurm_job import options
from gpuq.settings import load


def test_the_worker_service_of_a_pilot_has_what_is_set_for_worker_services_here(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for home in (here, there):
        home.mkdir()
    (here / "config.toml").write_text(
        '[worker]\nhost = "login"\ngrace_s = 3\nhook = false\n[devices]\nbackend = "none"\nfeatures = ["ib", "nvlink"]\n'
        "[admission]\nmax_slowdown = 1.5\n"
    )
    settings = load({"GPUQ_HOME": str(here), "GPUQ_LEARNING_LEVEL_AFTER_S": "10"})
    order = PilotOrder(
        main="login:1", fingerprint="f", host="slurm-1", secret="s", idle_s=60.0, gpus=1, whole_node=True, version="1",
        settings=settings_for(settings),
    )  # fmt: skip
    sent = msgspec.json.decode(msgspec.json.encode(order), type=PilotOrder)
    (there / "config.toml").write_text(settings_of(sent, until_at=1000.5))
    found = load({"GPUQ_HOME": str(there)})
    assert (found.learning.level_after_s, found.worker.grace_s, found.worker.hook) == (10.0, 3.0, False)
    assert found.devices.features == ("ib", "nvlink")
    assert (found.worker.host, found.devices.backend, found.devices.until_at) == ("slurm-1", "nvml", 1000.5)
    assert found.admission.max_slowdown == load({"GPUQ_HOME": str(tmp_path)}).admission.max_slowdown, "not a worker's"


def test_a_pilot_offers_the_mig_slices_that_slurm_gave_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slices = ("MIG-b8fa1e5c-9f2d-5d2a-8f5d-0b1c2d3e4f50", "MIG-GPU-b8fa1e5c-9f2d-5d2a-8f5d-0b1c2d3e4f50/1/0")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", ",".join(slices))
    order = PilotOrder(main="login:1", fingerprint="f", host="slurm-1", secret="s", idle_s=60.0, gpus=2, version="1")
    (tmp_path / "config.toml").write_text(settings_of(order, until_at=None))
    assert load({"GPUQ_HOME": str(tmp_path)}).devices.only == slices


def test_no_node_starts_a_login_shell_for_a_pilot(tmp_path: Path) -> None:
    """As Slurm lets it do for a list of names in --export."""
    assert [one for one in options(Pool(name="slurm"), 1, tmp_path) if one.startswith("--export")] == ["--export=ALL"]


def test_what_the_user_says_of_gpus_takes_the_place_of_their_number(tmp_path: Path) -> None:
    assert "--gres=gpu:2" in options(Pool(name="slurm", gpus=2), 2, tmp_path)
    typed = options(Pool(name="slurm", gpus=2, sbatch=("--gpus-per-node=a100:2",)), 2, tmp_path)
    assert typed[-1] == "--gpus-per-node=a100:2"
    assert not [one for one in typed if one.startswith("--gres")]
