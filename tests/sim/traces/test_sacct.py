"""What `sacct --parsable2` prints, as a trace."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpuq.errors import BadInput
from gpuq.sim.scenario import open_scenario
from gpuq.sim.traces import sacct
from gpuq.sim.traces.requests import ImportedTrace
from gpuq.sim.traces.sacct import FIELDS

Write = Callable[..., Path]
HEADER = FIELDS.replace(",", "|")
TRES = "billing=8,cpu=8,gres/gpu:h100={0},gres/gpu={0},mem=64G,node=1"


def read(path: Path) -> tuple[ImportedTrace, int]:
    return sacct.read(path, most_devices=8)


def row(
    job: str, *, name: str = "train", at: str = "10:00:00", seconds: str = "600", state: str = "COMPLETED", tres: str = "",
    used: str = "",
) -> str:  # fmt: skip
    day = f"2026-11-02T{at}"
    return f"{job}|{name}|ann|{day}|{day}|{seconds}|{state}|{tres or TRES.format(1)}|{used}"


@pytest.fixture
def written(tmp_path: Path) -> Write:
    def write(*rows: str, header: str = HEADER) -> Path:
        path = tmp_path / "jobs.txt"
        path.write_text("\n".join([header, *rows]) + "\n")
        return path

    return write


def test_each_job_that_had_gpus_counts_with_them_for_as_long_as_it_ran(written: Write) -> None:
    trace, gpus = read(
        written(
            row("7"),
            row("7.batch", name="batch"),
            row("8_1", name="sweep", at="10:05:00", tres="cpu=4,gres/gpu:a100=2,node=1", state="TIMEOUT"),
            row("9", tres="cpu=4,mem=1G,node=1"),
            row("10", seconds="0", state="CANCELLED by 1000"),
            row("11", state="RUNNING"),
        )
    )
    assert [(job.devices, job.duration_s, job.kind) for job in trace.jobs] == [
        (1, 600.0, "ann train x1"),
        (2, 600.0, "ann sweep x2"),
    ]
    # 1,800 GPU-seconds in 900 seconds.
    assert gpus == 2
    assert "left out: 1 jobs that have not ended" in trace.notes


def test_the_steps_say_how_busy_the_gpus_were_where_slurm_gathers_that(written: Write) -> None:
    used = "cpu=00:10:00,gres/gpumem=2048M,gres/gpuutil={},mem=1G"
    two = TRES.format(2)
    trace, _ = read(
        written(
            *(row("7"), row("7.batch", used=used.format(40)), row("7.extern", used=used.format(0))),
            *(row("8", tres=two), row("8.0", tres=two, used=used.format(90))),
            row("9"),
        )
    )
    assert [job.share_pct for job in trace.jobs] == [40.0, 45.0, None]
    assert "1 jobs do not say how busy their GPUs were" in trace.notes


def test_each_run_of_a_job_that_was_requeued_counts_where_sacct_printed_all_of_them(written: Write) -> None:
    """`sacct --duplicates`: the rows have one number, and Slurm charged each of them."""
    used = "gres/gpuutil={}"
    first = [row("7", state="REQUEUED", seconds="900"), row("7.batch", used=used.format(20))]
    second = [row("7", at="11:00:00"), row("7.batch", at="11:00:00", used=used.format(60))]
    trace, _ = read(written(*first, *second))
    assert [(job.duration_s, job.share_pct) for job in trace.jobs] == [(900.0, 20.0), (600.0, 60.0)]


def test_a_file_that_is_something_else_is_refused_with_the_command_that_writes_it(
    written: Write, tmp_path: Path
) -> None:
    with pytest.raises(BadInput, match="has no column ElapsedRaw, AllocTRES") as refused:
        read(written("7|train|ann|x|y", header="JobID|JobName|User|Submit|Start"))
    assert f"--format={FIELDS}" in refused.value.fix
    with pytest.raises(BadInput, match="job 7 has the Submit time"):
        read(written(row("7").replace("2026-11-02T10:00:00", "Unknown", 1)))
    with pytest.raises(BadInput, match="cannot be read"):
        read(tmp_path / "none")


def test_a_site_that_counts_no_gpus_learns_where_to_look(written: Write) -> None:
    with pytest.raises(BadInput, match="there is no job to play: AllocTRES names no gres/gpu") as refused:
        read(written(row("9", tres="cpu=4"), row("10", tres="cpu=4")))
    assert "AccountingStorageTRES" in refused.value.fix


@pytest.mark.parametrize("rows", [[], [row("9", state="RUNNING")], [row("9", seconds="0")]])
def test_a_file_without_a_job_that_ended_says_so_and_not_that_columns_are_missing(
    written: Write, rows: list[str]
) -> None:
    with pytest.raises(BadInput, match="there is no job to play that had GPUs, and ended"):
        read(written(*rows))


def test_what_cannot_be_read_of_some_jobs_keeps_no_other_from_being_played(written: Write) -> None:
    torn = [row("10", name="a|b"), *row("11", name="two\nlines").split("\n")]
    undated = row("12").replace("2026-11-02T10:00:00", "Unknown")
    path = written(row("7"), *torn, undated)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"train", b"tr\xe4in"))
    trace, _ = read(path)
    assert len(trace.jobs) == 1
    said = [note.partition(",")[0] for note in trace.notes if note.startswith("left out")]
    assert said == [
        "left out: 3 lines with more columns or fewer than the first",
        "left out: 1 jobs without a time of submission and of start that can be read",
    ]


def test_times_in_seconds_are_read_too(written: Write) -> None:
    moments = {"7": "1790000000", "8": "99999999999999"}  # the other is of no calendar
    trace, _ = read(written(*(row(job).replace("2026-11-02T10:00:00", at) for job, at in moments.items())))
    assert [job.submit_s for job in trace.jobs] == [1790000000.0]


def test_a_job_whose_clock_was_wrong_is_not_played(written: Write) -> None:
    with pytest.raises(BadInput, match="so a clock was wrong") as refused:
        read(written(row("7"), row("8").replace("2026-11-02", "1970-01-01"), row("9")))
    assert "started at 1970-01-01T10:00:00" in refused.value.fix


def test_a_job_over_many_nodes_does_not_say_how_many_gpus_the_others_need(written: Write) -> None:
    wide = row("9", tres="cpu=4,gres/gpu=512,node=64")
    _, gpus = read(written(row("7"), row("8", at="10:05:00"), wide))
    assert gpus == 2


def test_it_is_played_on_as_many_gpus_as_were_in_use_on_average(written: Write) -> None:
    times = ["10:00:00", "10:10:00", "10:20:00"] * 2
    path = written(*(row(str(number), at=at, used="gres/gpuutil=30") for number, at in enumerate(times)))
    found = open_scenario(f"slurm:{path}", world="law")
    assert (len(found.trace.arrivals), len(found.world.devices)) == (6, 2)
    assert len(open_scenario(f"slurm:{path}", world="law", gpus=5).world.devices) == 5
