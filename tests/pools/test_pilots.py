"""The folders of pilots: what is kept of one that has ended."""

from pathlib import Path

import pytest

from gpuq.home import Home
from gpuq.messages.pilot import Pilot
from gpuq.pools.pilots import PilotFolders

PILOT = Pilot(name="slurm-1", pool="slurm", slurm_job=7, gpus=1, requested_at=1.0, invited_at=1.0)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_a_pilot_is_there_until_it_is_removed(home: Home) -> None:
    folders = PilotFolders(home)
    folders.make("slurm-1")
    assert folders.read() == [], "Slurm has not taken it yet"
    folders.save(PILOT)
    assert folders.read() == [PILOT]
    folders.remove("slurm-1")
    assert folders.read() == []
    assert not (home.pilots / "slurm-1").exists()


def test_a_record_that_cannot_be_read_hides_no_other(home: Home) -> None:
    folders = PilotFolders(home)
    for name in ("slurm-1", "slurm-2"):
        folders.make(name)
    folders.save(PILOT)
    (home.pilots / "slurm-2" / "pilot.json").write_text("{")
    assert folders.read() == [PILOT]


def test_the_last_line_that_a_pilot_printed_says_why_it_ended(home: Home) -> None:
    folders = PilotFolders(home)
    folder = folders.make("slurm-1")
    assert folders.said("slurm-1") == ("It wrote nothing.", None)
    (folder / "slurm.out").write_text("one\ngpuq: The clock is wrong.\n  Mend it.\n")
    assert folders.said("slurm-1") == ("The clock is wrong.", "Mend it.")


def test_the_hours_of_a_pool_add_up(home: Home) -> None:
    folders = PilotFolders(home)
    folders.make("slurm-1")
    folders.charge("slurm", 1.5)
    folders.charge("slurm", 2.0)
    assert (folders.hours("slurm"), folders.hours("other")) == (3.5, 0.0)
