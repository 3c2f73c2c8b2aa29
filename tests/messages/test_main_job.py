"""What the home says of the Slurm job in which gpuq runs."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from gpuq.home import Home
from gpuq.messages import main_job
from gpuq.messages.main_job import MainJob


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "h")
    home.create()
    return home


def test_what_is_saved_is_read_and_only_its_owner_can_read_it(home: Home) -> None:
    assert main_job.read(home) is None
    job = MainJob(slurm_job=17, node="n1", url="https://n1:7000")
    main_job.save(home, job)
    assert main_job.read(home) == job
    assert stat.S_IMODE(home.main_job_file.stat().st_mode) == 0o600


@pytest.mark.parametrize("text", ["", "{", '{"node": "n1"}', "[]"])
def test_a_file_that_is_damaged_is_none(home: Home, text: str) -> None:
    home.main_job_file.write_text(text)
    assert main_job.read(home) is None
