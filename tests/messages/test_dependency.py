"""What is waited for, as submissions write it, and what of it each task of an array waits for."""

from __future__ import annotations

import pytest

from gpuq.messages import dependency


@pytest.mark.parametrize("text", ["ok:12", "any:3-9", "corr:3-9", "corr:12-20:2,25", "corr:7", "corr:1,5,7-8"])
def test_it_is_written_as_it_is_read(text: str) -> None:
    assert str(dependency.parse(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        *("corr", "corr:", "corr:0", "corr:3-2", "corr:3\n", "corr:3-9:0", "corr:1,", "corr:1-2-3", "corr:1-10001"),
        "corr:" + "1-5000," * 20_000 + "1",
    ],
)
def test_what_names_no_corresponding_tasks_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"dependency|backwards|10,000"):
        dependency.parse(text)


def test_a_task_waits_for_the_one_in_its_place_where_corresponding_ones_are_meant() -> None:
    waits = [dependency.of_task(["corr:5-7", "any:5-7"], place) for place in range(3)]
    assert [" ".join(map(str, one)) for one in waits] == ["ok:5 any:5-7", "ok:6 any:5-7", "ok:7 any:5-7"]
    waits = [dependency.of_task(["corr:5-9:2,20"], place) for place in range(4)]
    assert [str(one) for (one,) in waits] == ["ok:5", "ok:7", "ok:9", "ok:20"]


def test_what_is_waited_for_twice_is_waited_for_once() -> None:
    assert [str(one) for one in dependency.of_task(["corr:5", "ok:5"], 0)] == ["ok:5"]
