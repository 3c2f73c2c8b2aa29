"""A trace from a CSV file, in the forms that people write."""

from pathlib import Path

import pytest

from gpuq.errors import BadInput
from gpuq.sim.traces.table import read


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "jobs.csv"


def test_all_columns_in_any_order(table: Path) -> None:
    table.write_text(
        "user,priority,submit_s,kind,num_gpus,duration_s,deadline_s\nada,-3,120,resnet,2,60,500\nbob,,60,,,30,\n"
    )
    first, second = read(table).jobs
    assert (first.submit_s, first.duration_s, first.devices, first.owner, first.kind) == (60, 30, 1, "bob", None)
    assert (second.owner, second.priority, second.kind, second.devices, second.deadline_s) == (
        "ada",
        -3,
        "resnet",
        2,
        500,
    )


def test_only_two_columns_are_needed_and_moments_may_be_times(table: Path) -> None:
    table.write_text("submit_s;duration_s\n2026-11-21T14:30:00Z;60\n2026-11-21T14:31:00Z;60\n")
    first, second = read(table).jobs
    assert second.submit_s - first.submit_s == 60
    assert first.owner == second.owner


def test_fraction_of_a_gpu_is_one_gpu_with_a_share(table: Path) -> None:
    table.write_text("submit_s,duration_s,num_gpus\n0,60,0.25\n")
    (job,) = read(table).jobs
    assert (job.devices, job.share_pct) == (1, 25.0)


def test_times_before_zero_are_times_of_a_clock_too(table: Path) -> None:
    table.write_text("submit_s,duration_s,deadline_s\n-50,60,-10\n0,60,\n")
    first, second = read(table).jobs
    assert (first.submit_s, first.deadline_s, second.submit_s) == (-50, -10, 0)


def test_jobs_are_preemptible_only_where_the_table_says_so(table: Path) -> None:
    table.write_text("submit_s,duration_s,preemptible\n0,60,yes\n1,60,No\n2,60,\n3,60,1\n")
    assert [job.preemptible for job in read(table).jobs] == [True, False, False, True]
    table.write_text("submit_s,duration_s\n0,60\n")
    found = read(table)
    assert not found.jobs[0].preemptible
    assert "no job is preemptible" in found.notes[0]


def test_jobs_without_a_duration_are_left_out_and_counted(table: Path) -> None:
    table.write_text("submit_s,duration_s\n0,60\n1,\n2,0\n")
    found = read(table)
    assert len(found.jobs) == 1
    assert "left out: 2 jobs with no duration" in found.notes


def test_jobs_that_asked_for_no_gpu_are_left_out_and_counted(table: Path) -> None:
    """Clusters' traces have many: jobs of the CPU alone."""
    table.write_text("submit_s,duration_s,num_gpus\n0,60,0\n1,60,1\n2,60,0.0\n3,60,\n")
    found = read(table)
    assert [job.submit_s for job in found.jobs] == [1, 3]
    assert "left out: 2 jobs with no GPU" in found.notes


def test_notes_name_the_columns_that_are_not_read(table: Path) -> None:
    """`gpus` in place of `num_gpus` would else make each gang a job on one device."""
    table.write_text("job_id,submit_s,duration_s,gpus\n7,0,60,8\n")
    assert read(table).notes[-2:] == (
        "each job is played on one device: there is no column num_gpus",
        "columns that are not read: gpus, job_id",
    )


@pytest.mark.parametrize(
    ("text", "line", "complaint"),
    [
        ("submit_s\n0\n", 1, "no column duration_s"),
        ("submit_s,duration_s\n,5\n", 2, "submit_s is blank"),
        ("submit_s,duration_s\n0,5\n0,soon\n", 3, "duration_s is `soon`"),
        ("submit_s,duration_s,num_gpus\n0,5,1.5\n", 2, "num_gpus is 1.5"),
        ("submit_s,duration_s,deadline_s\n100,5,60\n", 2, "before submit_s"),
        ("submit_s,duration_s,priority\n0,5,high\n", 2, "priority is `high`"),
        ("submit_s,duration_s,priority\n0,5,-2000\n", 2, "priority is -2000"),
        ("submit_s,duration_s,priority\n0,5,0.5\n", 2, "priority is 0.5"),
        ("submit_s,duration_s,preemptible\n0,5,perhaps\n", 2, "preemptible is `perhaps`"),
        ("submit_s,duration_s\n0,5\n2026-11-28,5\n", 3, "submit_s is 56.9 years after line 2"),
        ("submit_s,duration_s\n9e10,5\n0,5\n", 2, "years after line 3"),
        ("submit_s,duration_s\n1790000000000,60000\n", 2, "submit_s is 1.79e+12, 5.67e+04 years of seconds"),
        ("submit_s,duration_s\n0,1e300\n", 2, "duration_s is 3.17e+292 years"),
    ],
)
def test_errors_name_the_line_and_a_fix(table: Path, text: str, line: int, complaint: str) -> None:
    table.write_text(text)
    with pytest.raises(BadInput) as wrong:
        read(table)
    assert f"jobs.csv:{line}:" in wrong.value.message
    assert complaint in wrong.value.message
    assert wrong.value.fix


def test_file_without_playable_jobs_is_refused(table: Path) -> None:
    table.write_text("submit_s,duration_s\n0,\n")
    with pytest.raises(BadInput, match="no job to play"):
        read(table)
