"""Runs the first training steps of a Python script without a GPU, to learn how much memory of one it will need.

`traced/` runs in the interpreter of the job, in a process of its own: it sees no GPU, what it puts on one has shapes and no data
(`traced/torch_step.py`), it may use so much time and memory, and where the kernel lets it, it can write to its temporary folder
only and has no network. What cannot be had is in `Traced.unprotected`.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from gpuq.errors import BadInput
from gpuq.script.program import Program, ProgramKind, program
from gpuq.script.tunables import runs_of_a_sweep

_MAIN = Path(__file__).with_name("traced") / "main.py"
LIMIT_S = 300
_PYTHON = re.compile(r"python[\d.]*t?")
_OPTION_OF_PYTHON = re.compile(r"-[uOBEsSIPqvbd]+|-[WX].*")
# Launchers that only say how one process runs, with their options and numbers: the dry run goes without them.
_PLAIN_LAUNCHER = re.compile(
    r"(.*/)?(env|nice|ionice|chrt|taskset|numactl|nohup|setsid|stdbuf|timeout|time)|-.*|[A-Za-z_]\w*=.*|[\d.,:-]+[smhd]?",
    re.DOTALL,
)
_LARGEST_ANSWER = 65_536
_SHOWN = 5
_WITHOUT = "Leave --dry-run-memory out: the first run is then measured alone."


class Traced(msgspec.Struct, frozen=True):
    """What `traced/main.py` found: bytes that the framework's allocator would hold of a GPU, without the driver's own context."""

    framework: str = ""
    reserved_bytes: int = 0
    convolution_bytes: int = 0
    """The largest result of a convolution, which its workspace follows."""
    unprotected: tuple[str, ...] = ()
    """What could not be shut off."""
    allocated_bytes: int = 0
    """All allocations together, whatever was freed in between."""
    has_read_whole: bool = False
    """Whether the script read whole numbers from the GPU, which may be sizes."""
    refused: str | None = None
    """Why the memory is not known."""


def dry_run(
    command: Sequence[str], folder: Path, environ: Mapping[str, str], memory_bytes: int, limit_s: float = LIMIT_S
) -> Traced:
    """Run the command so. Raises BadInput if it is no Python script, or its first steps do not show the memory of a GPU."""
    started = program(command, str(folder))
    python, target = _interpreter(started, command)
    if (runs := runs_of_a_sweep(started.arguments)) > 1:
        raise _unclear(f"it makes {runs} runs, one after the other (--multirun), of which each may need another amount")
    cwd = Path(started.cwd or folder)  # only a container has none, and those are refused
    asked = {"kind": started.kind, "target": target, "memory_bytes": memory_bytes, "limit_s": limit_s}

    def read_as(whole: int) -> Traced:
        return _run(python, {**asked, "whole": whole}, started.arguments, cwd, {**environ, **started.env})

    found = read_as(0)
    if found.has_read_whole:
        other = None
        with suppress(BadInput):
            other = read_as(1).allocated_bytes
        if other != found.allocated_bytes:
            raise _unclear("whole numbers that it reads from the GPU decide what is computed there")
    return found


def _run(
    python: list[str], asked: dict[str, Any], arguments: Sequence[str], folder: Path, environ: Mapping[str, str]
) -> Traced:
    """What `traced/main.py` answers to what is asked. Raises BadInput where that is no number of bytes."""
    limit_s = asked["limit_s"]
    with tempfile.TemporaryDirectory(prefix="gpuq-dry-run-") as name:
        answer, output = Path(name, "answer.json"), Path(name, "output")
        env = {**environ, "CUDA_VISIBLE_DEVICES": "", "TMPDIR": name, "PYTHONDONTWRITEBYTECODE": "1"}
        env |= {"HF_HUB_OFFLINE": "1", "WANDB_MODE": "disabled", "PYTHONHASHSEED": "0"}
        with output.open("wb") as out:
            try:
                process = subprocess.Popen(
                    [*python, str(_MAIN), json.dumps({**asked, "folder": name}), *arguments],
                    cwd=folder,
                    env=env,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                raise BadInput(f"{python[0]} cannot be started: {error.strerror}.") from error
            try:
                process.wait(limit_s)
            except subprocess.TimeoutExpired:
                raise BadInput(
                    f"the script made too few training steps within {limit_s:.0f} s.", fix=_WITHOUT
                ) from None
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        with suppress(OSError, ValueError, msgspec.MsgspecError):
            with answer.open("rb") as file:
                found = msgspec.json.decode(file.read(_LARGEST_ANSWER), type=Traced)
            if found.refused is not None:
                raise _unclear(found.refused)
            if found.reserved_bytes > 0:
                return found
        raise BadInput(f"the script came to no training step on a GPU.{_last_words(output)}", fix=_WITHOUT)


def _unclear(why: str) -> BadInput:
    return BadInput(f"the first steps do not show how much memory this needs: {why}.", fix=_WITHOUT)


def _interpreter(started: Program, command: Sequence[str]) -> tuple[list[str], str]:
    """(the interpreter with its options, the script or module as the command names it). Raises BadInput."""
    before = list(command[: started.first or 0])
    place = next((place for place, word in enumerate(before[:-1]) if _PYTHON.fullmatch(Path(word).name)), None)
    if place is not None and started.kind in (ProgramKind.SCRIPT, ProgramKind.MODULE):
        launchers, python, (*options, target) = before[:place], before[place], before[place + 1 :]
        if started.kind is ProgramKind.MODULE:  # `-m train`, `-um train`, `-mtrain`
            flag = options.pop() if target == started.name else target.removesuffix(started.name)
            target = started.name
            options += [rest for rest in (flag.removesuffix("m"),) if rest != "-"]
        are_options = (
            _OPTION_OF_PYTHON.fullmatch(word) or last in ("-W", "-X") for last, word in pairwise(["", *options])
        )
        if all(map(_PLAIN_LAUNCHER.fullmatch, launchers)) and all(are_options):
            return [python, *options], target
    raise BadInput(
        "--dry-run-memory runs a Python script in one process, as in `gpuq submit train.py`.",
        fix=f"Name the interpreter and the script alone, as in `.venv/bin/python train.py`. {_WITHOUT}",
    )


def _last_words(output: Path) -> str:
    """What the script printed last, indented."""
    with output.open("rb") as file:
        file.seek(max(0, output.stat().st_size - 4096))
        lines = file.read().decode("utf-8", "replace").splitlines()
    shown = [line for line in lines if line.strip()][-_SHOWN:]
    return "".join(f"\n    {line}" for line in (" Its last output:", *shown)) if shown else ""
