"""The unattended run's stepping: what is done stays done, what stopped goes on, what failed does not stop the rest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from workloads.on_gpu import wheels
from workloads.on_gpu.__main__ import LEFT, main
from workloads.on_gpu.steps import OutOfTime, Room, State, Step, go, states


class Day:
    """A clock that the acts turn, and what was done and said."""

    def __init__(self) -> None:
        self.now, self.done, self.said = 0.0, [], []

    def go(self, steps: list[Step], out: Path, seconds: float = 100) -> None:
        go(steps, out, seconds, self.said.append, clock=lambda: self.now)

    def act(self, name: str, takes: float = 10, fault: Exception | None = None, least: float = 10) -> Step:
        def act(room: Room) -> dict[str, Any]:
            self.done.append(name)
            self.now += takes
            if fault is not None:
                raise fault
            return {"name": name}

        return Step(name, f"does {name}", act, least)


def test_each_step_is_done_once_and_leaves_its_file(tmp_path: Path):
    day = Day()
    steps = [day.act("one"), day.act("two")]
    day.go(steps, tmp_path)
    day.go(steps, tmp_path)
    assert day.done == ["one", "two"]
    assert json.loads((tmp_path / "two.json").read_text()) == {"name": "two"}
    assert states(steps, tmp_path) == [State("one", "done"), State("two", "done")]


def test_what_the_time_does_not_reach_waits_and_a_shorter_one_still_fits(tmp_path: Path):
    day = Day()
    steps = [day.act("first", takes=70), day.act("long", least=50), day.act("short", least=20)]
    day.go(steps, tmp_path)
    assert day.done == ["first", "short"]
    assert states(steps, tmp_path)[1] == State("long", "waits", "does long")
    assert "long: needs 50 s, 30 s are left" in day.said
    day.go(steps, tmp_path)
    assert day.done == ["first", "short", "long"]


def test_a_step_that_ran_out_of_time_goes_on_with_what_it_kept(tmp_path: Path):
    day = Day()

    def act(room: Room) -> dict[str, Any]:
        pieces = sorted(path.name for path in room.folder.iterdir())
        (room.folder / f"piece{len(pieces)}").touch()
        if len(pieces) < 2:
            raise OutOfTime(f"{len(pieces) + 1} of 3")
        return {"pieces": pieces}

    step = Step("slow", "in pieces", act)
    day.go([step], tmp_path)
    assert states([step], tmp_path) == [State("slow", "partial", "1 of 3")]
    day.go([step], tmp_path)
    day.go([step], tmp_path)
    assert json.loads((tmp_path / "slow.json").read_text()) == {"pieces": ["piece0", "piece1"]}
    assert not list(tmp_path.glob("slow.partial*"))


def test_a_failed_step_is_recorded_and_tried_again_and_later_steps_still_run(tmp_path: Path):
    day = Day()
    broken = day.act("broken", fault=RuntimeError("no such thing"))
    day.go([broken, day.act("fine")], tmp_path)
    assert day.done == ["broken", "fine"]
    assert states([broken], tmp_path) == [State("broken", "failed", "RuntimeError: no such thing")]
    assert "act" in json.loads((tmp_path / "broken.failed.json").read_text())["traceback"]
    mended = day.act("broken")
    day.go([mended], tmp_path)
    assert states([mended], tmp_path) == [State("broken", "done")]


def test_a_step_knows_how_long_it_has(tmp_path: Path):
    day, left = Day(), []
    day.go([day.act("first", takes=30), Step("second", "asks", lambda room: left.append(room.left()) or {})], tmp_path)
    assert left == [70]


def test_the_command_without_a_gpu_says_what_is_left_and_ends_with_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    code = main(
        [
            "--backend",
            "cpu",
            "--out",
            str(tmp_path),
            "--for",
            "50",
            "--only",
            "driver",
            "--only",
            "campaign-time-slicing",
        ]
    )
    out = capsys.readouterr().out
    assert code == LEFT
    assert "done     driver" in out
    assert "waits    campaign-time-slicing" in out
    assert json.loads((tmp_path / "driver.json").read_text()) == {"skipped": "CPU devices have no driver"}


def test_wheels_are_named_for_what_is_missing_here_and_for_no_more():
    assert wheels.missing(["pytest>=8", "psutil"]) == []
    assert wheels.missing(["no-such-package-xyz>=2,<3", "pytest>=9999", 'other; python_version < "3"']) == [
        "no-such-package-xyz<3,>=2",
        "pytest>=9999",
    ]
    fetch, build, *_, install = wheels.commands(["a>=1"])
    assert "'a>=1'" in fetch
    assert "--no-deps" in build
    assert "--no-index" in install
