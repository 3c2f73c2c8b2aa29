"""What `--after` takes, and what Slurm's `--dependency` becomes."""

from __future__ import annotations

import pytest

from gpuq.cli import dependencies
from gpuq.errors import BadInput
from tests.cli.test_job_ids import SOME


def test_jobs_by_id_are_after_their_success_unless_it_says_otherwise() -> None:
    found = dependencies.parse(["12,any:13", "fail:14-16", "ok:12"], lambda: SOME)
    assert found == ["ok:12", "any:13", "fail:14-16"]


def test_the_id_of_an_array_means_all_its_tasks() -> None:
    assert dependencies.parse(["40,any:40_2-5"], lambda: SOME) == ["ok:40-44", "any:41-42"]


def test_tasks_are_named_singly_and_in_lists_and_steps() -> None:
    words = ["ok:40_4,any:40_[0,6-8]", "start:40_0-8:4", "corr:40", "corr:40_[0,6-8]"]
    found = ["ok:42", "any:40-40", "any:43-44", "start:40-40", "start:42", "start:44", "corr:40-44", "corr:40-40,43-44"]
    assert dependencies.parse(words, lambda: SOME) == found


def test_jobs_may_be_named_as_anywhere() -> None:
    assert dependencies.parse(["ok:@-1,any:@~1,c"], lambda: SOME) == ["ok:9", "any:7", "ok:2"]


@pytest.mark.parametrize("text", ["afterok:12", "ok:", ":", "", "ok:12,,any:3", "done:12"])
def test_what_names_no_end_of_a_job_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="does not say which end"):
        dependencies.parse([text], lambda: SOME)


def test_slurms_forms_become_ours() -> None:
    words = dependencies.of_slurm("afterok:12:@,singleton,afterany:3")
    assert words == ["--after=ok:12", "--after=ok:@", "--singleton", "--after=any:3"]
    assert dependencies.of_slurm("after:12:13_2,aftercorr:14") == [
        "--after=start:12",
        "--after=start:13_2",
        "--after=corr:14",
    ]


@pytest.mark.parametrize("text", ["after:12+5", "aftercorr", "afterok", "afterok:", "afterok:1?afterok:2", "expand:4"])
def test_what_gpuq_does_not_have_of_slurm_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        dependencies.of_slurm(text)
