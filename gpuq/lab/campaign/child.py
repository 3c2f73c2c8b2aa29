"""One process of a workload, and all below it: start, pin, pause, go on, end; and its step counter.

Arrives: a `WorkloadJob`, a folder of its own and a `Placement`. Leaves: marks of its counter, and how it ended. The environment
is the caller's, without gpuq's own variables, with the hook in front: what a job under gpuq has.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from gpuq_workers.measuring.prealloc import AS_NEEDED
from gpuq_workers.measuring.progress import hook_environment, read_progress
from gpuq_workers.shim import mps
from gpuq_workers.shim.classify import Evidence, JobEnd, classify

from gpuq.adapters.devices import Placement
from gpuq.adapters.process import Identity, descendants, identify, identities, kill_tree, send_signal, with_environment
from gpuq.errors import BadInput
from gpuq.lab.campaign.steady import Mark
from gpuq.lab.campaign.work import WorkloadJob

_TAIL_BYTES = 65536
_LOOK_EVERY_S = 0.02
# As a job under gpuq starts.
_DEFAULTS = {"PYTHONUNBUFFERED": "1", **AS_NEEDED}


@dataclass
class Child:
    """A workload that was started. For one thread."""

    job: WorkloadJob
    folder: Path
    process: subprocess.Popen[bytes]
    identity: Identity
    started_at: float
    env: Mapping[str, str]
    marks: list[Mark] = field(default_factory=list)

    def look(self) -> None:
        """Note where its counter stands, if it has moved."""
        found = read_progress(self.folder / "progress")
        if found is None or (self.marks and found.last_step_at <= self.marks[-1].at):
            return
        if self.marks and found.steps < self.marks[-1].steps:
            self.marks.clear()  # it began to count for itself, or anew
        self.marks.append(Mark(found.last_step_at, found.steps))

    def ending(self, oom_kill_s: float | None = None, has_gpu: bool | None = None) -> JobEnd | None:
        """How it ended, as `shim.end` calls it; None while it runs. The arguments are those of its `Evidence`."""
        code = self.process.poll()
        if code is None:
            return None
        exit_code = 128 - code if code < 0 else code
        evidence = Evidence(exit_code, self._tail(), signalled=code < 0, oom_kill_s=oom_kill_s, has_gpu=has_gpu)
        return classify(evidence)

    def summary(self) -> dict[str, Any] | None:
        """The last line that it wrote, if that is a JSON object."""
        lines = self._tail().strip().splitlines()
        with suppress(msgspec.MsgspecError):
            return msgspec.json.decode(lines[-1], type=dict[str, Any]) if lines else None
        return None

    def pin(self, cores: Sequence[int]) -> None:
        """Move all its threads to these cores; those that it starts later follow."""
        for one in self._tree():
            with suppress(OSError):
                for thread in os.listdir(f"/proc/{one.pid}/task"):  # noqa: PTH208 - names are enough
                    with suppress(OSError):
                        os.sched_setaffinity(int(thread), cores)

    def pause(self) -> None:
        """Stop it and all below it."""
        for one in self._tree():
            send_signal(one, signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it run again."""
        for one in self._tree():
            send_signal(one, signal.SIGCONT)

    def ask_to_end(self) -> None:
        """Let it run, and ask it to end; under MPS its work on the GPU is given up first."""
        self.go_on()
        mps.disconnect(self.env, [one.pid for one in self._tree()])
        send_signal(self.identity, signal.SIGTERM)

    def end(self, grace_s: float) -> None:
        """Wait so long for its end, then kill it and whatever is left of it."""
        deadline = time.monotonic() + grace_s
        while self.process.poll() is None and time.monotonic() < deadline:
            time.sleep(_LOOK_EVERY_S)
        kill_tree(self.identity)
        end_leftovers(self.folder)
        self.process.wait()

    def _tree(self) -> list[Identity]:
        return [self.identity, *identities(descendants(self.identity.pid))]

    def _tail(self) -> bytes:
        with suppress(OSError), (self.folder / "output.log").open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            return file.read()
        return b""


def start(
    job: WorkloadJob, folder: Path, placement: Placement, environ: Mapping[str, str], clock: Callable[[], float]
) -> Child:
    """Start the job in a session of its own; what it writes goes into `folder`. Raises BadInput where it cannot start."""
    folder.mkdir(parents=True, exist_ok=True)
    progress = folder / "progress"
    progress.unlink(missing_ok=True)
    env = {
        **_DEFAULTS,
        **{name: value for name, value in environ.items() if not name.startswith("GPUQ_")},
        **dict(job.env),
    }
    env |= {**hook_environment(env, progress), **placement.env}
    own_cores = os.sched_getaffinity(0)
    try:
        with (folder / "output.log").open("wb") as output:
            if placement.cores is not None:
                os.sched_setaffinity(0, placement.cores)  # inherited: its libraries count cores as they start
            process = subprocess.Popen(
                job.arguments, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=env, start_new_session=True
            )
    except OSError as error:
        raise BadInput(
            f"`{job.arguments[0]}` of `{job.name}` could not be started: {error.strerror or error}.",
            fix="Correct its command in the list.",
        ) from error
    finally:
        os.sched_setaffinity(0, own_cores)
    identity = identify(process.pid)
    assert identity is not None, "our own child, not waited for, is there at least as a zombie"
    return Child(job, folder, process, identity, clock(), env)


@contextmanager
def signals_held_back() -> Iterator[None]:
    """Ctrl-C and SIGTERM come when this is over: whoever is to end a child has to know of it first. For the main thread."""
    came: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda number, _: came.append(number)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    for late in came:
        signal.raise_signal(late)


def end_leftovers(folder: Path) -> int:
    """Kill what a campaign that was killed left running in this folder; how many there were."""
    left = with_environment({"GPUQ_PROGRESS": str(folder / "progress")})
    for one in left:
        kill_tree(one)
    return len(left)
