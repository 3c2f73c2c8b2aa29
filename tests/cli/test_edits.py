"""What can be changed of a job, as options and as text for an editor."""

from __future__ import annotations

from typing import Any

import pytest

from gpuq.cli import edits
from gpuq.errors import BadInput

JOB: dict[str, Any] = {
    "state": "PENDING",
    "name": 'träin "x" \\',
    "priority": 0,
    "share": "auto",
    "max_slowdown": 1.15,
    "declared_memory_bytes": 10 * 2**30,
    "time_limit_s": 9000.0,
    "begin_at_unix": 1_783_000_000.0,
    "deadline_at_unix": None,
    "notify": ["end", "fail:slack"],
}


def test_options_become_fields_and_default_takes_back() -> None:
    given = {
        "priority": "5",
        "time": "4h",
        "max_slowdown": "default",
        "gpu_mem": "1G",
        "name": "default",
        "begin": None,
    }
    assert edits.fields(given) == {
        "name": "default",
        "priority": 5,
        "max_slowdown": None,
        "gpu_memory": 2**30,
        "time_limit_s": 14400.0,
    }


@pytest.mark.parametrize(
    ("option", "text"),
    [("priority", "default"), ("priority", "1001"), ("share", "default"), ("time", "soon"), ("name", " ")],
)
def test_a_value_that_makes_no_sense_is_refused_by_its_option(option: str, text: str) -> None:
    with pytest.raises(BadInput, match=f"^--{option}"):
        edits.fields({option: text})


def test_a_text_that_was_not_changed_changes_nothing() -> None:
    before = edits.values_of(JOB)
    assert edits.from_text(edits.as_text(before, "a title"), before) == {}


def test_lines_that_are_changed_written_or_taken_out_count() -> None:
    before = edits.values_of(JOB)
    text = edits.as_text(before, "a title")
    text = text.replace("priority = 0", "priority = 7").replace('# deadline = "8h"', "")
    text = text.replace('time = "2h30m"', "# none").replace('share = "auto"\n', "").replace('"1.15"', "1.3")
    assert edits.from_text(text, before) == {"priority": 7, "max_slowdown": 1.3, "time_limit_s": None}


def test_of_a_running_job_only_some_values_are_there() -> None:
    before = edits.values_of({**JOB, "state": "RUNNING"})
    assert list(before) == ["name", "time_limit_s", "notify"]
    with pytest.raises(BadInput, match="`priority` cannot be changed"):
        edits.from_text("priority = 5", before)


@pytest.mark.parametrize("text", ["priority", "priority = \n", "command = 'rm'", "priority = true"])
def test_a_text_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        edits.from_text(text, edits.values_of(JOB))


@pytest.mark.parametrize(
    ("size", "text"), [(2**30, "1G"), (3 * 2**29, "1536M"), (2**20, "1M"), (5 * 2**10, "5K"), (2**10 + 1, "1025B")]
)
def test_a_size_is_shown_in_the_largest_unit_that_divides_it(size: int, text: str) -> None:
    assert edits.as_options({"gpu_memory": size}) == ["--gpu-mem", text]


def test_a_name_that_begins_with_a_dash_is_no_option() -> None:
    assert edits.as_options({"name": "-foo"}) == ["--name=-foo"]


def test_values_as_options_give_the_values_again() -> None:
    values = {name: value for name, value in edits.values_of(JOB).items() if name not in {"notify", "begin_at"}}
    words = edits.as_options(values)
    given = dict(zip([word.removeprefix("--") for word in words[::2]], words[1::2], strict=True))
    assert edits.fields(given) == values
