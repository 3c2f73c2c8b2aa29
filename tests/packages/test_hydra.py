"""A Hydra sweep whose jobs run on gpuq. Run by `make package-test`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.site import Site

PLUGIN = Path(__file__).resolve().parents[2] / ".ci/packages/hydra"
APP = """
import hydra
from omegaconf import OmegaConf

@hydra.main(version_base=None, config_path=None)
def app(config):
    print("lr is", config.lr)
    return config.lr

app()
"""
pytestmark = pytest.mark.packages


def test_a_sweep_is_a_job_for_each_value() -> None:
    pytest.importorskip("hydra", reason="needs pip install hydra-core hydra-submitit-launcher")
    pytest.importorskip("hydra_plugins.hydra_submitit_launcher", reason="needs pip install hydra-submitit-launcher")
    with Site(devices_cpu_count=2, admission_memory_headroom=0.95) as site:
        (site.home / "app.py").write_text(APP)
        env = {**site.env, "PYTHONPATH": f"{PLUGIN}:{os.environ.get('PYTHONPATH', '')}".rstrip(":")}
        words = ["--multirun", "+lr=0.1,0.01", "hydra/launcher=gpuq", "hydra.launcher.project=vision"]

        def run(*more: str) -> subprocess.CompletedProcess[str]:
            command = [sys.executable, "app.py", *words, *more]
            return subprocess.run(command, cwd=site.home, env=env, capture_output=True, text=True, check=False)

        done = run("hydra.launcher.timeout_min=5")
        assert done.returncode == 0, done.stderr
        jobs = [site.wait(number) for number in (1, 2)]  # a result is there a moment before its job has ended
        assert [(job["state"], job["project"], job["name"]) for job in jobs] == [("COMPLETED", "vision", "app")] * 2
        said = "".join(path.read_text() for path in sorted(site.home.glob("multirun/**/*_log.out")))
        assert "lr is 0.1\n" in said
        assert "lr is 0.01\n" in said
        refused = run("hydra.launcher.share=sometimes")
        assert refused.returncode != 0
        assert not site.job(3)
