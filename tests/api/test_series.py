"""Series of jobs: what is written of the live view, how files stay small, and what the command draws of them."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from gpuq.api.series import EVERY_S, MOST, Point, SeriesWriter, merged, points_of, read
from gpuq.messages.live import decode
from tests.api.conftest import Endpoint
from tests.api.support import afternoon
from tests.support import forked

KEY = (42, 1)


def point(at: float, **fields: Any) -> Point:
    return Point(at=at, **fields)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


async def test_each_running_attempt_has_a_point_with_its_partners(endpoint: Endpoint) -> None:
    afternoon(endpoint.store, endpoint.stream)
    assert endpoint.stream.picture is not None
    found = points_of(decode(endpoint.stream.picture))
    assert {job for job, _ in found} == {42, 43, 44, 47, 48}
    assert (found[KEY].utilization_pct, found[KEY].partners) == (56, (43,))
    assert found[48, 1].rate is None, "unknown, and not 0"


def test_two_points_as_one_are_means_of_what_is_known() -> None:
    one = point(10.0, utilization_pct=40.0, memory_bytes=100, partners=(7,))
    other = point(20.0, utilization_pct=60.0, rate=2.0, partners=(9,))
    assert merged(one, other) == point(20.0, utilization_pct=50.0, memory_bytes=100, rate=2.0, partners=(7, 9))


def test_a_long_run_has_fewer_points_and_the_same_mean(folder: Path) -> None:
    writer, count = SeriesWriter(folder), 2 * MOST
    for number in range(count):
        writer.write({KEY: point(EVERY_S * number, utilization_pct=100.0 * (number >= count // 2))})
    points = read(folder, *KEY)
    assert MOST // 2 <= len(points) <= MOST
    assert [one.at for one in points] == sorted(one.at for one in points)
    assert points[-1].at >= EVERY_S * (count - 4)
    known = [one.utilization_pct for one in points if one.utilization_pct is not None]
    assert sum(known) / len(known) == pytest.approx(50.0, abs=1.0)


def test_a_later_process_goes_on_behind_a_line_that_was_cut_off(folder: Path) -> None:
    SeriesWriter(folder).write({KEY: point(100.0, rate=1.0)})
    path = folder / "42-1.jsonl"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_bytes(path.read_bytes() + b'{"at": 11')
    again = SeriesWriter(folder)
    again.write({KEY: point(101.0, rate=9.0)})
    again.write({KEY: point(110.0, rate=2.0)})
    again.write({KEY: point(120.0, rate=3.0)})
    assert [one.at for one in read(folder, *KEY)] == [100.0, 120.0], "the first behind the cut line is lost with it"


def test_a_link_or_a_pipe_in_its_place_is_not_followed(folder: Path) -> None:
    (folder / "42-1.jsonl").symlink_to(folder / "else")
    with pytest.raises(OSError, match="regular file"):
        SeriesWriter(folder).write({KEY: point(1.0)})
    os.mkfifo(folder / "43-1.jsonl")
    assert read(folder, 43, 1) == read(folder, 42, 1) == []
    assert not (folder / "else").exists()


def test_old_files_are_removed(folder: Path) -> None:
    writer = SeriesWriter(folder)
    writer.write({KEY: point(1.0), (43, 1): point(1.0)})
    os.utime(folder / "42-1.jsonl", (0, 0))
    writer.clean(time.time() - 86_400)
    assert [path.name for path in folder.iterdir()] == ["43-1.jsonl"]


# --- through the real command --------------------------------------------------------------------------------------


async def gpuq(endpoint: Endpoint, *words: str) -> Any:
    env = {"GPUQ_HOME": str(endpoint.settings.home.root), "PATH": "/usr/bin:/bin", "TZ": "UTC", "COLUMNS": "100"}
    return await asyncio.to_thread(forked.gpuq, *words, env=env, cwd=endpoint.settings.home.root, text=True)


async def test_show_draws_what_the_endpoint_copied(endpoint: Endpoint) -> None:
    afternoon(endpoint.store, endpoint.stream)
    series = endpoint.settings.home.series
    assert series.is_dir(), "the endpoint has begun to copy"
    assert stat.S_IMODE(series.stat().st_mode) == 0o700
    writer = SeriesWriter(series)
    for number in range(8):
        partners = (43,) if number > 3 else ()
        writer.write({KEY: point(1000.0 + 10 * number, utilization_pct=12.5 * (number + 1), partners=partners)})

    done = await gpuq(endpoint, "show", "42", "--plot")

    assert done.returncode == 0, done.stderr
    drawn = [line.split(maxsplit=1) for line in done.stdout.partition("over time")[2].splitlines()[1:]]
    assert drawn == [
        ["utilisation", "▂▃▄▅▆▇██  12% to 100%"], ["partners", "····1111  43"],
        ["1970-01-01", "00:16:40 to 1970-01-01 00:17:50"],
    ], "and nothing of what is not known"  # fmt: skip
    plain = json.loads((await gpuq(endpoint, "show", "42", "--plot", "--json")).stdout)
    assert [one["utilization_pct"] for one in plain["series"]][:2] == [12.5, 25.0]
    assert plain["series"][0]["power_watts"] is None
    assert "no series yet" in (await gpuq(endpoint, "show", "49", "--plot")).stdout


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("show", "42", "--attempt", "1"), 2, "--attempt goes with --plot"),
        (("show", "42", "--plot", "--attempt", "zero"), 2, "is not a whole number"),
        (("show", "42", "--plot", "--attempt", "9"), 3, "Job 42 has no attempt 9"),
        (("show", "999", "--plot"), 3, "no job 999"),
    ],
)
async def test_bad_input_is_refused_with_the_fix(
    endpoint: Endpoint, words: tuple[str, ...], code: int, sentence: str
) -> None:
    afternoon(endpoint.store, endpoint.stream)
    done = await gpuq(endpoint, *words)
    assert (done.returncode, done.stdout) == (code, "")
    assert sentence in done.stderr
    assert len(done.stderr.splitlines()) == 2
