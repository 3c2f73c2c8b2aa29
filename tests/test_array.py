"""The notation of task numbers, and placeholders in words."""

from __future__ import annotations

import tracemalloc

import pytest

from gpuq.array import check_placeholders, filled, merged, numbers, placeholders, ranges, text_of
from gpuq.errors import BadInput
from gpuq.messages.submission import ArrayTasks


@pytest.mark.parametrize(
    ("text", "found", "again"),
    [
        ("0-3", (0, 1, 2, 3), "0-3"),
        ("1,3,5-9:2", (1, 3, 5, 7, 9), "1-9:2"),
        ("0-9:3,20", (0, 3, 6, 9, 20), "0-9:3,20"),
        ("7, 3, 7", (3, 7), "3,7"),
        ("5", (5,), "5"),
        ("0-9:4", (0, 4, 8), "0-8:4"),
    ],
)
def test_task_numbers_are_written_as_in_slurm(text: str, found: tuple[int, ...], again: str) -> None:
    assert numbers(text) == found
    assert text_of(found) == again
    assert numbers(again) == found


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "`` is no list of task numbers."),
        ("1-", "is no list of task numbers."),
        ("1,,2", "is no list of task numbers."),
        ("9-1", "the range `9-1` runs backwards."),
        ("1-9:0", "has steps of 0."),
        ("0-999999999", "an array of 1,000,000,000 tasks; 10,000 is the limit."),
        ("0-9999,10000", "an array of 10,001 tasks; 10,000 is the limit."),
        ("0-9999," * 18_000 + "x", "an array of 20,000 tasks; 10,000 is the limit."),
    ],
)
def test_what_is_no_list_of_tasks_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(BadInput) as error:
        numbers(text)
    assert error.value.message.endswith(sentence)


def test_ascending_ids_are_written_as_ranges() -> None:
    assert ranges([]) == ()
    assert ranges([3, 4, 5, 8, 10, 11]) == ((3, 5), (8, 8), (10, 11))


def test_placeholders_are_filled_and_what_is_the_shells_stays() -> None:
    values = {"lr": "0.1", "task": "7"}
    assert filled("--out={task}/{lr}", values) == "--out=7/0.1"
    assert filled("${lr} $lr {{lr}} {} {a b} {other}", values) == "${lr} $lr {lr} {} {a b} {other}"
    assert filled("{lr}", {"lr": "{task}"}) == "{task}", "a value is not filled again"
    assert placeholders(["{lr}", "${no}", "{{no}}", "a{b.c}d"]) == {"lr", "b.c"}


def test_a_name_without_a_value_and_a_value_without_a_place_are_refused() -> None:
    check_placeholders(["{lr}", "{task}"], ["lr"])
    check_placeholders(["awk", "{print}"], [])
    check_placeholders(["{task}"], ["lr"])
    with pytest.raises(BadInput, match="there is no parameter `lt`"):
        check_placeholders(["{lt}"], ["lr"])
    with pytest.raises(BadInput, match="no word of the command has"):
        check_placeholders(["{lr}"], ["lr", "seed"])


def test_many_long_arrays_take_no_memory_for_their_numbers() -> None:
    tracemalloc.start()
    arrays = [ArrayTasks(tasks=f"0-{last}") for last in range(8_000, 8_030)]
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert held < 5 * 2**20, f"{len(arrays)} arrays hold {held:,} bytes"


def test_ranges_are_joined_where_they_meet() -> None:
    assert merged([(5, 9), (1, 3), (4, 4), (6, 7), (20, 30), (25, 40), (1, 3), (42, 42)]) == [
        (1, 9),
        (20, 40),
        (42, 42),
    ]
    assert merged([]) == []
