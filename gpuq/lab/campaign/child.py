"""One process of a workload with all its descendants: start, pin to cores, pause, continue, end; and its step counter.

It gets the caller's environment without gpuq's own variables, and with the progress hook: what a job under gpuq has.
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
from gpuq_workers.shim.classify import JobEnd, classify

from gpuq.adapters.devices import Placement
from gpuq.adapters.process import Identity, descendants, identify, identities, kill_tree, send_signal, with_environment
from gpuq.errors import BadInput
from gpuq.lab.campaign.steady_state import Mark
from gpuq.lab.campaign.workload_list import WorkloadJob

_TAIL_BYTES = 65536
_LOOK_EVERY_S = 0.02
# Environment of a job under gpuq.
_DEFAULTS = {"PYTHONUNBUFFERED": "1", **AS_NEEDED}


@dataclass
class Child:
    """A started workload. Not safe for use by several threads."""

    job: WorkloadJob
    folder: Path
    process: subprocess.Popen[bytes]
    identity: Identity
    started_at: float
    env: Mapping[str, str]
    marks: list[Mark] = field(default_factory=list)

    def look(self) -> None:
        """Record the step counter's value if it has changed."""
        found = read_progress(self.folder / "progress")
        if found is None or (self.marks and found.last_step_at <= self.marks[-1].at):
            return
        if self.marks and found.steps < self.marks[-1].steps:
            self.marks.clear()  # the script counts its steps itself now, or counts again from 0
        self.marks.append(Mark(found.last_step_at, found.steps))

    def ending(self, oom_kill_s: float | None = None, has_gpu: bool | None = None) -> JobEnd | None:
        """How it ended; None while it runs. The arguments are those of `gpuq_workers.shim.classify.classify`."""
        code = self.process.poll()
        if code is None:
            return None
        exit_code = 128 - code if code < 0 else code
        return classify(exit_code, self._tail(), signalled=code < 0, oom_kill_s=oom_kill_s, has_gpu=has_gpu)

    def summary(self) -> dict[str, Any] | None:
        """The last line of its output, if that is a JSON object."""
        lines = self._tail().strip().splitlines()
        with suppress(msgspec.MsgspecError):
            return msgspec.json.decode(lines[-1], type=dict[str, Any]) if lines else None
        return None

    def pin(self, cores: Sequence[int]) -> None:
        """Move all its threads to these cores; threads that it starts later inherit them."""
        for one in self._tree():
            with suppress(OSError):
                for thread in os.listdir(f"/proc/{one.pid}/task"):  # noqa: PTH208 - names are enough
                    with suppress(OSError):
                        os.sched_setaffinity(int(thread), cores)

    def pause(self) -> None:
        """Stop (SIGSTOP) it and its descendants."""
        for one in self._tree():
            send_signal(one, signal.SIGSTOP)

    def go_on(self) -> None:
        """Continue (SIGCONT) it and its descendants."""
        for one in self._tree():
            send_signal(one, signal.SIGCONT)

    def ask_to_end(self) -> None:
        """Continue it and send SIGTERM. Under MPS its work on the GPU is ended first, since it could hold up the other job."""
        self.go_on()
        mps.disconnect(self.env, [one.pid for one in self._tree()])
        send_signal(self.identity, signal.SIGTERM)

    def end(self, grace_s: float) -> None:
        """Wait up to `grace_s` seconds for its end, then kill it and every process that it left."""
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
    """Start the job in a session of its own, with its output in `folder`. Raises BadInput where it cannot be started."""
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
    """Delay SIGINT and SIGTERM until the block is left, so that a child is registered before a signal can end the campaign.

    For the main thread only.
    """
    received: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda number, _: received.append(number)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    for late in received:
        signal.raise_signal(late)


def end_leftovers(folder: Path) -> int:
    """Kill the processes that a killed campaign left running in this folder. Returns how many there were."""
    left = with_environment({"GPUQ_PROGRESS": str(folder / "progress")})
    for one in left:
        kill_tree(one)
    return len(left)
