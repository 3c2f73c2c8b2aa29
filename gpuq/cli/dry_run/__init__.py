"""Runs the first training steps of a Python script without a GPU, to learn how much memory of one it will need.

`traced/` runs in the interpreter of the job, in a process of its own: it sees no GPU, what it puts on one has shapes and no data
(`traced/torch_step.py`), it may use so much time and memory, and where the kernel lets it, it can write to its temporary folder
only and has no network. What cannot be had is in `Traced.unprotected`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gpuq.errors import BadInput

_MAIN = Path(__file__).with_name("traced") / "main.py"
LIMIT_S = 300
# Options of the interpreter that take no argument.
_FLAGS = frozenset({"-u", "-O", "-OO", "-B", "-E", "-s", "-S", "-I", "-P", "-q", "-v"})
_LARGEST_ANSWER = 65_536
_SHOWN = 5
_WITHOUT = "Leave --dry-run-memory out: the first run is then measured alone."


@dataclass(frozen=True)
class Traced:
    """Bytes that the framework's allocator would hold of a GPU after some steps, without the driver's own context."""

    framework: str
    reserved_bytes: int
    convolution_bytes: int
    """The largest result of a convolution, which its workspace follows."""
    unprotected: tuple[str, ...] = ()


def dry_run(
    command: Sequence[str], folder: Path, environ: Mapping[str, str], memory_bytes: int, limit_s: float = LIMIT_S
) -> Traced:
    """Run the command so. Raises BadInput if it is no Python script, or came to no training step on a GPU."""
    python, kind, target, arguments = _parts(command)
    with tempfile.TemporaryDirectory(prefix="gpuq-dry-run-") as name:
        answer, output = Path(name, "answer.json"), Path(name, "output")
        asked = {"kind": kind, "target": target, "memory_bytes": memory_bytes, "limit_s": limit_s, "folder": name}
        env = {**environ, "CUDA_VISIBLE_DEVICES": "", "TMPDIR": name, "PYTHONDONTWRITEBYTECODE": "1"}
        env |= {"HF_HUB_OFFLINE": "1", "WANDB_MODE": "disabled"}
        with output.open("wb") as out:
            try:
                process = subprocess.Popen(
                    [*python, str(_MAIN), json.dumps(asked), *arguments],
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
                raise BadInput(f"the script made no training step within {limit_s:.0f} s.", fix=_WITHOUT) from None
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        with suppress(OSError, ValueError, TypeError, KeyError):
            with answer.open("rb") as file:
                found = json.loads(file.read(_LARGEST_ANSWER))
            reserved = int(found["reserved_bytes"])
            if reserved > 0:
                return Traced(
                    str(found["framework"]),
                    reserved,
                    int(found["convolution_bytes"]),
                    tuple(map(str, found["unprotected"])),
                )
        raise BadInput(f"the script came to no training step on a GPU.{_last_words(output)}", fix=_WITHOUT)


def _parts(command: Sequence[str]) -> tuple[list[str], str, str, list[str]]:
    """(interpreter with its flags, "module" or "script", its name, its arguments). Raises BadInput."""
    words = list(command)
    count = 1
    while count < len(words) and words[count] in _FLAGS:
        count += 1
    rest = words[count:]
    if words and Path(words[0]).name.startswith("python") and rest:
        if rest[0] == "-m" and len(rest) > 1:
            return words[:count], "module", rest[1], rest[2:]
        if not rest[0].startswith("-"):
            return words[:count], "script", rest[0], rest[1:]
    raise BadInput("--dry-run-memory runs a Python script, as in `gpuq submit train.py`.", fix=_WITHOUT)


def _last_words(output: Path) -> str:
    """What the script printed last, indented."""
    with output.open("rb") as file:
        file.seek(max(0, output.stat().st_size - 4096))
        lines = file.read().decode("utf-8", "replace").splitlines()
    shown = [line for line in lines if line.strip()][-_SHOWN:]
    return "".join(f"\n    {line}" for line in (" Its last output:", *shown)) if shown else ""
