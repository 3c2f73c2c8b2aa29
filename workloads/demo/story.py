"""What the demo does, in four acts, and the claims it holds itself to.

The timeline on two cores, in seconds. Each job spends about 10 s on importing TensorFlow and compiling, so the training
itself is short. It is measured in windows of 5 s, the first of each set of partners left out; the two that share train long
enough to have several windows together, which gives their slowdowns an interval:

      0  gpuq starts; meanwhile the segmentation files are written
      5  act 1: three kinds nobody knows, so each runs alone and is thereby measured: 42 + 17 + 32 s
     96  act 2: the same work again. Two share, one is refused a partner, waits, and runs: 65 s; last, a kind not seen
         before, alone: 14 s
    175  act 3: forecast against actual, packing saving
    176  act 4: training, and the forecasts after it: 3 s
    180  everything is ended

Act 1 limits each job by time; act 2 gives each exactly the steps it then made, so both acts do the same work.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import workloads
from workloads.datasets import pets
from workloads.demo import report
from workloads.demo.gpuq import DemoFailed, Gpuq, Json
from workloads.demo.screen import Screen

FOLDER = Path(workloads.__file__).parent
# A new kind among the latest runs lets the judge see whether a model knows more than the record alone.
NEW_KIND_S = 8
NEW_KIND_BATCH = 64
UNSEEN_BATCH = 128
# No act takes this long on a machine that works; a demo that hangs is ended and says so.
ACT_WITHIN_S = 300.0
LOOK_EVERY_S = 1.0
LOOKS_FOR_VERDICT_S = 30.0
ENDED = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "PREEMPTED", "NODE_FAIL"}
SETTINGS = {
    "GPUQ_DEVICES_BACKEND": "cpu",
    "GPUQ_DEVICES_CPU_COUNT": "1",
    "GPUQ_DEVICES_CPU_CORES": "2",
    "GPUQ_LEARNING_MINIMUM_ATTEMPTS": "6",
}


@dataclass(frozen=True)
class Work:
    """One of the training scripts, with the flags that stay the same in all its runs."""

    name: str
    script: str
    batch_size: int
    first_run_s: int
    flags: tuple[str, ...] = ()
    wishes: tuple[str, ...] = ()
    """Options of `gpuq submit`."""

    def command(self, *, steps: int = 0, seconds: int = 0, batch_size: int | None = None) -> list[str]:
        """The script with its arguments. A limit of 0 is none."""
        size = str(batch_size or self.batch_size)
        limits = [
            "--steps",
            str(steps),
            "--seconds",
            str(seconds),
            "--epochs",
            "1000",
            "--threads",
            "1",
            "--data",
            "synthetic",
        ]
        return [str(FOLDER / f"{self.script}.py"), "--batch-size", size, *self.flags, *limits]


@dataclass
class Seen:
    """What really happened, for the table and for the claims."""

    alone: list[Json] = field(default_factory=list)
    together: list[Json] = field(default_factory=list)
    refusal: Json | None = None


def main() -> int:
    """Run the demo; 0 only if all it set out to show was seen."""
    screen = Screen()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupted)
    cores = len(os.sched_getaffinity(0))
    if cores < 2:
        screen.say(f"The demo needs two CPU cores to share between jobs, and has {cores}.")
        return 1
    try:
        _tell(screen)
    except DemoFailed as failure:
        screen.say(f"\nThe demo failed: {failure}")
        return 1
    except KeyboardInterrupt:
        screen.say("\nInterrupted; gpuq and its jobs were ended.")
        return 130
    screen.say(f"\nDone after {screen.elapsed():.0f} s. Nothing is left running, and the temporary home is gone.")
    return 0


def _tell(screen: Screen) -> None:
    screen.act("gpuq starts")
    screen.say(
        "A gpuq of its own: embedded Redis, SQLite, one worker, one device of two CPU cores. Jobs really run there and "
        "really slow each other down. Real training (Keras on TensorFlow), synthetic data."
    )
    seen = Seen()
    with Gpuq(SETTINGS) as gpuq:
        data = gpuq.home / "pets"
        pets.prepare(data, 256, 0)
        works = (
            Work("images", "image_classification", 32, 36),
            Work("words", "sentiment", 32, 12, wishes=("--max-slowdown", "1.05")),
            Work("pets", "segmentation", 8, 27, ("--data-dir", str(data), "--storage-mbps", "1.2")),
        )
        gpuq.wait_ready()
        steps = _first_runs(screen, gpuq, works, seen)
        _second_runs(screen, gpuq, works, steps, seen)
        _compare(screen, seen)
        _learn(screen, gpuq, works[0], seen)
        _check(seen)


def _first_runs(screen: Screen, gpuq: Gpuq, works: Sequence[Work], seen: Seen) -> list[int]:
    screen.act("Act 1: nothing is known, so each kind runs alone and is thereby measured")
    ids = [_submit(screen, gpuq, work, seconds=work.first_run_s) for work in works]
    seen.alone = _watch(screen, gpuq, ids, _all_ended)
    _all_completed(gpuq, seen.alone)
    return [steps_made(gpuq.run("logs", str(number))) for number in ids]


def _second_runs(screen: Screen, gpuq: Gpuq, works: Sequence[Work], steps: Sequence[int], seen: Seen) -> None:
    screen.act("Act 2: the same work again; now the numbers decide who may share")
    first, second, third = works
    a = _submit(screen, gpuq, first, steps=steps[0])
    _watch(screen, gpuq, [a], lambda jobs: jobs[0]["state"] not in ("PENDING", "STARTING"))
    b = _submit(screen, gpuq, second, steps=steps[1])
    seen.refusal = _refusal(gpuq, b)
    if seen.refusal is not None:
        screen.say(f"`gpuq explain {b}`:\n{gpuq.run('explain', str(b)).rstrip()}")
    c = _submit(screen, gpuq, third, steps=steps[2])
    d = _submit(screen, gpuq, first, seconds=NEW_KIND_S, batch_size=NEW_KIND_BATCH)
    jobs = _watch(screen, gpuq, [a, b, c, d], _all_ended)
    _all_completed(gpuq, jobs)
    seen.together = jobs[:3]


def _compare(screen: Screen, seen: Seen) -> None:
    screen.act("Act 3: what was forecast, and what happened")
    screen.console.print(report.comparison(seen.together, seen.alone))
    screen.say(
        "Slowdown: time together / time alone, 1.00 is none; in brackets its 95% interval. Steps/s alone are act 1's."
    )
    for one, other in _pairs(seen.together):
        pair = [one, other]
        alone = [run for run in seen.alone if run["name"] in (one["name"], other["name"])]
        _say_saving(screen, f"{one['id']} and {other['id']}", pair, alone)
    _say_saving(screen, "all three", seen.together, seen.alone)
    if seen.refusal is not None:
        screen.say(f"Refused a partner: job {seen.refusal['id']}. {seen.refusal['verdict'].get('sentence', '')}")


def _say_saving(screen: Screen, who: str, together: Sequence[Json], alone: Sequence[Json]) -> None:
    saving = report.packing_saving(together, alone)
    screen.say(
        f"Packing saving of {who}: 1 - {report.time_together(together):.1f} s together / "
        f"{sum(map(report.duration, alone)):.1f} s one after the other = {saving:.0%}"
    )


def _learn(screen: Screen, gpuq: Gpuq, work: Work, seen: Seen) -> None:
    screen.act("Act 4: training, and what it changed")
    asked = [work.command(seconds=20), work.command(seconds=20, batch_size=UNSEEN_BATCH)]
    before = [gpuq.ask("predict", "--json", *command)["forecast"] for command in asked]
    least = SETTINGS["GPUQ_LEARNING_MINIMUM_ATTEMPTS"]
    screen.say(f"For the demo a model may be trained from {least} attempts; the default asks for 8.")
    result = gpuq.ask("model", "train", "--json")
    outcome = f"Published model {result['version']}" if result["published"] else "Not published; nothing changes"
    screen.say(f"{outcome}: {result['reason']}.")
    after = [gpuq.ask("predict", "--json", *command)["forecast"] for command in asked]
    rows = [
        ("images", "first launch", seen.alone[0]["forecast"]),
        ("", "second launch", seen.together[0]["forecast"]),
        ("", "before training", before[0]),
        ("", "after", after[0]),
        (f"batch {UNSEEN_BATCH}:", "before training", before[1]),
        ("never run", "after", after[1]),
    ]
    screen.console.print(report.learned(rows))
    for what, old, new in zip(("images", f"batch size {UNSEEN_BATCH}"), before, after, strict=True):
        screen.say(f"Training changed the forecast of {what}: {'yes' if report.changed(old, new) else 'no'}.")


def _check(seen: Seen) -> None:
    """The claims, each of which may fail. Raises DemoFailed."""
    claims = [
        (bool(_pairs(seen.together)), "no two jobs shared the device"),
        (any(job["actual"]["slowdown"] is not None for job in seen.together), "no slowdown was measured"),
        (seen.refusal is not None, "no job was refused a partner for its predicted load"),
    ]
    broken = [text for holds, text in claims if not holds]
    if broken:
        busy = report.foreign_load(seen.refusal, seen.together)
        hint = (
            f" Other work kept {busy:.0f}% of the two cores busy; try when the machine is quiet." if busy > 15 else ""
        )
        raise DemoFailed(f"{'; '.join(broken)}.{hint}")


def _pairs(jobs: Sequence[Json]) -> list[tuple[Json, Json]]:
    """The jobs that ran side by side, for longer than it takes to start."""
    return [
        (one, other)
        for place, one in enumerate(jobs)
        for other in jobs[place + 1 :]
        if report.overlap(one, other) > 0 and one["device"] == other["device"]
    ]


def _submit(screen: Screen, gpuq: Gpuq, work: Work, **limits: int) -> int:
    number = int(gpuq.run("submit", "--parsable", "--name", work.name, *work.wishes, *work.command(**limits)))
    asked = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in limits.items())
    screen.say(f"{' '.join(('gpuq submit', *work.wishes))} {work.script}.py … → job {number} ({asked})")
    return number


def _watch(screen: Screen, gpuq: Gpuq, ids: Sequence[int], until: Callable[[list[Json]], bool]) -> list[Json]:
    deadline = time.monotonic() + ACT_WITHIN_S
    with screen.board() as board:
        while time.monotonic() < deadline:
            jobs = [gpuq.job(number) for number in ids]
            board.show(jobs, gpuq.get("/api/v1/gpus"))
            if until(jobs):
                return jobs
            time.sleep(LOOK_EVERY_S)
    raise DemoFailed(f"jobs {', '.join(map(str, ids))} were not done after {ACT_WITHIN_S:.0f} s.")


def _refusal(gpuq: Gpuq, number: int) -> Json | None:
    """The job as it was when its load kept it from a busy device; None if that did not happen."""
    deadline = time.monotonic() + LOOKS_FOR_VERDICT_S
    while time.monotonic() < deadline:
        job = gpuq.job(number)
        verdict = job["verdict"] or {}
        if verdict.get("rule") == "PredictedLoad" and not verdict["admitted"]:
            return job
        if job["state"] != "PENDING":
            return None
        time.sleep(0.2)
    return None


def _all_ended(jobs: Sequence[Json]) -> bool:
    return all(job["state"] in ENDED for job in jobs)


def _all_completed(gpuq: Gpuq, jobs: Sequence[Json]) -> None:
    for job in jobs:
        if job["state"] != "COMPLETED":
            log = gpuq.run("logs", str(job["id"]))[-1500:]
            raise DemoFailed(f"job {job['id']} ({job['name']}) ended {job['state']}, exit {job['exit_code']}:\n{log}")


def steps_made(log: str) -> int:
    """The steps that a workload's summary, its last line, tells of. Raises DemoFailed."""
    lines = [line for line in log.splitlines() if line.startswith("{")]
    if not lines:
        raise DemoFailed("a job's log has no summary line.")
    return int(json.loads(lines[-1])["steps"])


def _interrupted(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
