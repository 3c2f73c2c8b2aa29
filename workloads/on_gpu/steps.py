"""Run steps in order within a time limit, and resume where they stopped at the next start.

Each step leaves one file in the folder: `NAME.json` when it is done, `NAME.partial.json` when it ran out of time and must be
continued, `NAME.failed.json` when it failed. A failed step does not stop the others, and is tried again at the next start.
"""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Say = Callable[[str], None]


class OutOfTime(Exception):
    """The step kept what it had in its folder, and wants to go on next time. Its words say how far it came."""


@dataclass(frozen=True)
class Room:
    """Where a step works: `folder` stays until it is done, `left` says how many seconds it has."""

    folder: Path
    left: Callable[[], float]
    say: Say


@dataclass(frozen=True)
class Step:
    """`act` returns what goes into the step's file. It is only begun with `least_s` seconds left."""

    name: str
    what: str
    act: Callable[[Room], dict[str, Any]]
    least_s: float = 30.0


@dataclass(frozen=True)
class State:
    """How a step stands: "done", "partial", "failed" or "waits"; in words, for all but the first."""

    name: str
    state: str
    words: str = ""


def go(steps: Sequence[Step], out: Path, seconds: float, say: Say, clock: Callable[[], float] = time.monotonic) -> None:
    """Do what is not done yet, in order, as far as the time goes. A step that fails does not keep the others from their turn."""
    out.mkdir(parents=True, exist_ok=True)
    end = clock() + seconds
    for step in steps:
        if _file(out, step, "").exists():
            say(f"{step.name}: done before")
        elif end - clock() < step.least_s:
            say(f"{step.name}: needs {step.least_s:.0f} s, {max(0.0, end - clock()):.0f} s are left")
        else:
            _do(step, out, Room(out / step.name, lambda: end - clock(), say))


def states(steps: Sequence[Step], out: Path) -> list[State]:
    """How each step stands."""
    return [_state(step, out) for step in steps]


def _do(step: Step, out: Path, room: Room) -> None:
    room.say(f"{step.name}: {step.what}")
    room.folder.mkdir(exist_ok=True)
    for ending in (".partial", ".failed"):
        _file(out, step, ending).unlink(missing_ok=True)
    try:
        _write(_file(out, step, ""), step.act(room))
        room.say(f"{step.name}: done")
    except OutOfTime as stopped:
        _write(_file(out, step, ".partial"), {"words": str(stopped)})
        room.say(f"{step.name}: {stopped}; start again to go on")
    except Exception as error:  # noqa: BLE001 - the run is unattended, so the other steps must still run
        words = f"{type(error).__name__}: {error}"
        _write(_file(out, step, ".failed"), {"words": words, "traceback": traceback.format_exc()})
        room.say(f"{step.name}: failed: {words}")


def _state(step: Step, out: Path) -> State:
    if _file(out, step, "").exists():
        return State(step.name, "done")
    for state in ("partial", "failed"):
        file = _file(out, step, f".{state}")
        if file.exists():
            return State(step.name, state, json.loads(file.read_text())["words"])
    return State(step.name, "waits", step.what)


def _file(out: Path, step: Step, ending: str) -> Path:
    return out / f"{step.name}{ending}.json"


def _write(path: Path, facts: dict[str, Any]) -> None:
    """Whole or not at all: a step that was killed while it wrote is not done."""
    aside = path.with_suffix(".new")
    aside.write_text(json.dumps(facts, indent=1))
    aside.rename(path)
