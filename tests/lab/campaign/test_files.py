"""The tables of a campaign have the runs' figures, in the form that the rest of gpuq reads."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuq.lab.campaign.files import equal_work_saving, write_tables
from gpuq.lab.campaign.ledger import DISTURBED, FAILED, OUT_OF_MEMORY
from gpuq.lab.campaign.session import session
from gpuq.lab.characterize.packing import costs
from gpuq.lab.characterize.source import read_folder
from gpuq.lab.measured import read_pairs, read_singles
from tests.lab.campaign.jobs import a_job, a_run
from tests.support.nouns import a_device

SMALL, LARGE = a_job(size=8), a_job(size=64)
RUNS = [
    a_run(SMALL, peak_memory_bytes=2**28, peak_utilization_pct=40.0),
    a_run(SMALL, peak_memory_bytes=2**29, peak_utilization_pct=44.0, alone_rate=22.0),
    a_run(LARGE, peak_memory_bytes=2**30),
    a_run(SMALL, LARGE, slowdown=1.25),
    a_run(LARGE, LARGE, outcome=OUT_OF_MEMORY),
    a_run(SMALL, SMALL, outcome=DISTURBED),
    a_run(a_job("other"), outcome=FAILED),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = session(a_device(), None, ["list.toml", "--out", "here"], 1e9)
    write_tables(tmp_path / "out", (LARGE, SMALL), RUNS, [made])
    return tmp_path / "out"


def test_singles_are_the_middle_of_their_runs_and_of_memory_the_most(folder: Path):
    large, small = read_singles(folder / "singles.csv")
    assert (small.job, small.model, small.batch_size, small.family) == ("net 8", "net", 8, "pictures")
    assert (small.steps_per_s, small.utilization_pct, small.peak_memory_mib) == (21.0, 42.0, 512.0)
    assert (large.job, large.utilization_pct, large.power_w) == ("net 64", None, None)


def test_pairs_have_a_line_for_each_run_and_blanks_where_the_memory_did_not_do(folder: Path):
    together, too_large = read_pairs(folder / "pairs.csv")
    assert (together.job_a, together.job_b, together.slowdown_a, together.slowdown_b) == ("net 8", "net 64", 1.25, 1.25)
    assert (together.sharing, together.device_type) == ("time-slicing", "cpu-1")
    assert (too_large.job_a, too_large.slowdown_a, too_large.slowdown_b) == ("net 64", None, None)


def test_the_saving_is_the_one_that_the_description_computes(folder: Path):
    with (folder / "pairs.csv").open() as file:
        written = next(csv.DictReader(file))
    (described, _) = costs(read_folder(folder).pairs, lambda _: None)
    assert float(written["saving_pct"]) == pytest.approx(100 * described.packing_saving)
    assert float(written["saving_pct"]) == 37.5, "1 - 1 / (1 / 1.25 + 1 / 1.25)"


@given(st.floats(1, 4), st.floats(1, 4))
def test_two_equal_jobs_save_by_the_time_until_the_second_ends(one: float, other: float):
    """Played through: both run until the quicker is done, then the other goes on alone."""
    first_ends = min(one, other)
    rest = 1 - first_ends / max(one, other)
    assert equal_work_saving(one, other) == pytest.approx(1 - (first_ends + rest) / 2)
    assert equal_work_saving(one, other) == equal_work_saving(other, one)
    quick, slow = sorted((one, other))
    while_both_run = 1 - 1 / (1 / one + 1 / other)
    assert equal_work_saving(one, other) == pytest.approx(while_both_run * (1 + quick / slow) / 2, abs=1e-12)
    assert equal_work_saving(1, 1) == 0.5
    assert equal_work_saving(2, 2) == 0


def test_session_is_written_beside_the_tables(folder: Path):
    (made,) = json.loads((folder / "made.json").read_text())
    assert made["arguments"] == ["list.toml", "--out", "here"]
    assert made["at"].startswith("2001-")
    assert made["libraries"]["numpy"]
    assert made["python"]
    assert made["memory"] > 0
