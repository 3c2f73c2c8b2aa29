"""What the demo does on CPU cores, and the claims that it checks.

Two kinds of training, both `workloads/mlp.py`. A small one waits for slow storage most of the time: the pace of the storage is
chosen so that it computes for about a quarter of one core, by what a step costs on this machine. A wide one reads at full speed
and computes with two threads.

      0 s  gpuq starts; meanwhile a short run of the small one shows what a step costs
      5 s  first runs: gpuq knows neither, so each runs alone and is measured
     30 s  two more of the small kind share the device, and another wide one is refused beside them
     50 s  what the two lost is measured, with an interval; everything is ended

Each phase lasts until what it is for is measured, up to a time limit. How fast the machine is does not matter, and other work
matters little: the two small ones, which may be slowed by a quarter, fit also beside processes that take all that they leave, and
the wide one, which must not be slowed, does not fit beside them on an idle machine either.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from gpuq_workers.measuring.sample import saved_measurement

import workloads
from gpuq.core.measuring import slowdown as slowdown_math
from gpuq.core.measuring.measurement import Measurement
from workloads import mlp
from workloads.demo import report
from workloads.demo.cores import quota
from workloads.demo.gpuq import DemoFailed, Gpuq, Json
from workloads.demo.screen import Screen

SCRIPT = Path(workloads.__file__).parent / "mlp.py"
CORES = 2
# Each uses 11% of two cores, and may be slowed by a quarter: the load limit is then 125%, so two fit beside whatever else runs.
CORES_OF_A_WAITING_JOB = 0.22
WAITING_MAY_LOSE = "1.25"
COMPUTING_MAY_LOSE = "1.0"
BATCH_SIZE = 256
RATES = (0.05, 0.1, 0.02)
TRIAL_STEPS = 60
# gpuq leaves out the first 5 s of a training and measures its progress in windows of 5 s; the last may be half a window.
ALONE_S = 14.0
LOAD_S = 6.5
# A partner ends the window under way, so two whole ones have to be over before it comes.
ALONE_BEFORE_A_PARTNER_S = 17.5
TOGETHER_S = 17.0
# The worker service writes down what it has measured every 5 s.
KEPT_EVERY_S = 6.0
# The demo goes on for an interval no wider than this, but not longer than that.
HALF_WIDTH = 0.05
PATIENCE_S = 20.0
LIMIT_S = 170.0
LOOK_EVERY_S = 0.5
TRIAL_WITHIN_S = 60.0
ENDED = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "PREEMPTED", "NODE_FAIL"}


@dataclass(frozen=True)
class Work:
    """One kind of training. Its jobs differ by their learning rate alone, which changes nothing that they need."""

    name: str
    flags: tuple[str, ...]
    stop_file: Path
    alone_s: float
    options: tuple[str, ...] = ()
    """Options of `gpuq submit`."""

    def submit(self, gpuq: Gpuq, rate: float) -> int:
        """The number of a new job with this learning rate."""
        command = [
            str(SCRIPT),
            "--model",
            self.name,
            *self.flags,
            "--stop-file",
            str(self.stop_file),
            "--lr",
            str(rate),
        ]
        return int(gpuq.run("submit", "--parsable", "--name", self.name, *self.options, *command))


@dataclass
class Seen:
    """What really happened, for the report and for the claims."""

    alone: list[Json] = field(default_factory=list)
    together: list[Json] = field(default_factory=list)
    refusal: Json | None = None


def main() -> int:
    """Run the demo; 0 only if all it set out to show was seen."""
    screen = Screen()
    with ended_in_order(screen) as code:
        cores = len(os.sched_getaffinity(0))
        if cores < CORES:
            raise DemoFailed(f"it needs two CPU cores to share between jobs, and this process may use {cores}.")
        _tell(screen, quota())
    return code[0]


@contextmanager
def ended_in_order(screen: Screen) -> Iterator[list[int]]:
    """Turn the end of the demo into an exit code and one sentence. Yields the list that the code is in afterwards."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupted)
    code = [0]
    try:
        yield code
        screen.say(f"Done after {screen.elapsed():.0f} s. Nothing is left running, and the temporary home is gone.")
    except DemoFailed as failure:
        screen.say(f"\nThe demo failed after {screen.elapsed():.0f} s: {failure}")
        code[0] = 1
    except KeyboardInterrupt:
        screen.say("\nInterrupted; gpuq and its jobs were ended.")
        code[0] = 130


def settings(cores: float | None) -> dict[str, str]:
    """gpuq's settings for the demo; `cores` is what a CPU quota leaves of the machine, None without one. Raises DemoFailed."""
    found = {
        "GPUQ_DEVICES_BACKEND": "cpu",
        "GPUQ_DEVICES_CPU_COUNT": "1",
        "GPUQ_DEVICES_CPU_CORES": str(CORES),
        # Three, so that the load rule is asked about a third job, and not only how many may share.
        "GPUQ_ADMISSION_RESIDENTS_PER_DEVICE": "3",
    }
    if cores is not None and cores < 1:
        raise DemoFailed(f"it needs at least one core's worth of CPU time, and a control group leaves it {cores:.2f}.")
    if cores is not None and cores < CORES:
        found["GPUQ_ADMISSION_UTILIZATION_PCT"] = f"{100 * cores / CORES:.0f}"
    return found


def _tell(screen: Screen, cores: float | None) -> None:
    screen.say(
        "gpuq demo: a gpuq of its own with one device, made of two CPU cores. Real\n"
        "trainings in NumPy run on it (workloads/mlp.py): small ones, which mostly wait\n"
        "for storage and may be slowed by 25%, and wide ones, which must not be slowed."
    )
    chosen = settings(cores)
    if "GPUQ_ADMISSION_UTILIZATION_PCT" in chosen:
        screen.say(
            f"A control group leaves {cores:.1f} of the two cores, so `utilization_pct` is set to "
            f"{chosen['GPUQ_ADMISSION_UTILIZATION_PCT']}."
        )
    seen = Seen()
    with Gpuq(chosen) as gpuq:
        small, wide = _works(gpuq.home)
        gpuq.wait_ready()
        _first_runs(screen, gpuq, (small, wide), seen)
        _second_runs(screen, gpuq, small, wide, seen)
    check(seen)
    screen.say()
    for line in _report(seen):
        screen.say(line)
    screen.say()


def _works(home: Path) -> tuple[Work, Work]:
    """The small and the wide training, with storage at a pace at which the small one computes for the wanted part of its time."""
    data = home / "data"
    mlp.prepare(data, mlp.SAMPLES, 0)
    flags = ("--data-dir", str(data), "--batch-size", str(BATCH_SIZE))
    pace = storage_mbps(_seconds_per_step([*flags, "--model", "small", "--steps", str(TRIAL_STEPS)]))
    paced = (*flags, "--storage-mbps", f"{pace:.2f}")
    small = Work("small", paced, home / "stop-small", ALONE_S, ("--max-slowdown", WAITING_MAY_LOSE))
    flags = ("--data-dir", str(data), "--batch-size", str(2 * BATCH_SIZE), "--threads", str(CORES))
    return small, Work("wide", flags, home / "stop-wide", LOAD_S, ("--max-slowdown", COMPUTING_MAY_LOSE))


def storage_mbps(seconds_per_step: float) -> float:
    """The pace of storage in MB/s at which one such step after the other takes `CORES_OF_A_WAITING_JOB` of a core."""
    return BATCH_SIZE * mlp.ROW_BYTES / 1e6 * CORES_OF_A_WAITING_JOB / seconds_per_step


def _seconds_per_step(flags: Sequence[str]) -> float:
    """What a step costs here: seconds of CPU time, which other work on the machine hardly changes."""
    try:
        done = subprocess.run(
            [sys.executable, str(SCRIPT), *flags], capture_output=True, text=True, check=True, timeout=TRIAL_WITHIN_S
        )
        summary = json.loads(done.stdout.splitlines()[-1])
        return float(summary["cpu_seconds"]) / int(summary["steps"])
    except subprocess.TimeoutExpired as error:
        raise DemoFailed(
            f"{TRIAL_STEPS} steps of `{SCRIPT.name}` take over {TRIAL_WITHIN_S:.0f} s. Try again when the machine is less busy."
        ) from error
    except (OSError, subprocess.CalledProcessError, ValueError, LookupError) as error:
        said = getattr(error, "stderr", "") or error
        raise DemoFailed(f"`{SCRIPT.name}` does not run here: {str(said).strip()[-500:]}") from error


def _first_runs(screen: Screen, gpuq: Gpuq, works: Sequence[Work], seen: Seen) -> None:
    screen.act("First runs: nothing is known of them, so each runs alone and is measured.")
    ids = [work.submit(gpuq, RATES[0]) for work in works]
    trained = Trained()

    def end_measured(jobs: Sequence[Json]) -> bool:
        for work, job in zip(works, jobs, strict=True):
            if trained.seconds(job) >= work.alone_s:
                work.stop_file.touch()
        return all_ended(jobs)

    seen.alone = watch(screen, gpuq, ids, end_measured)
    all_completed(gpuq, seen.alone)
    for work in works:
        work.stop_file.unlink(missing_ok=True)


def _second_runs(screen: Screen, gpuq: Gpuq, small: Work, wide: Work, seen: Seen) -> None:
    screen.act("Other learning rates: the forecasts decide who shares.")

    def widths() -> list[float | None]:
        return [_half_width(gpuq.home, number, seen.alone[0]["id"]) for number in ids]

    ids = [small.submit(gpuq, RATES[1])]
    disturbed = seen.alone[0]["actual"].get("alone_rate") is None
    if disturbed:
        # Other work took so much of the first run's time that its rate does not count: each of the two gets time alone now.
        trained = Trained()
        watch(screen, gpuq, ids, lambda jobs: trained.seconds(jobs[0]) >= ALONE_BEFORE_A_PARTNER_S)
    ids.append(small.submit(gpuq, RATES[2]))
    watch(screen, gpuq, ids, _beside_each_other, why_not=why_they_did_not_share)
    since = time.monotonic()
    third = wide.submit(gpuq, RATES[1])
    seen.refusal = refusal(gpuq, third)
    gpuq.run("cancel", str(third))
    watch(screen, gpuq, ids, lambda _: enough(time.monotonic() - since, widths()[: 1 if disturbed else 2]))
    if None in widths():
        gpuq.run("cancel", str(ids[0]))
        until = time.monotonic() + PATIENCE_S
        watch(screen, gpuq, ids, lambda _: widths()[1] is not None or time.monotonic() > until)
    small.stop_file.touch()
    seen.together = watch(screen, gpuq, ids, all_ended)
    all_completed(gpuq, [job for job in seen.together if job["state"] != "CANCELLED"])


class Trained:
    """How long jobs have trained, from the first look that saw steps of them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: dict[int, float] = {}

    def seconds(self, job: Json) -> float:
        """Seconds since steps were first seen; 0 before."""
        if not (job["live"] or {}).get("steps"):
            return 0.0
        return self._clock() - self._since.setdefault(job["id"], self._clock())


def enough(seconds: float, widths: Sequence[float | None]) -> bool:
    """Whether to end two jobs that have run beside each other for so long, with such half widths of their intervals."""
    if seconds < TOGETHER_S:
        return False
    if None in widths:
        return seconds >= TOGETHER_S + KEPT_EVERY_S
    return seconds >= TOGETHER_S + PATIENCE_S or all(width is not None and width <= HALF_WIDTH for width in widths)


def _half_width(home: Path, number: int, first: int) -> float | None:
    """How far the interval of a running job's slowdown reaches to either side, as a share; None while there is no interval.

    From what the worker service has written of the job and of the first run of its kind.
    """
    now, alone = (saved_measurement(home / "attempts" / f"{job}-1") for job in (number, first))
    return half_width(now, alone)


def half_width(now: Measurement, first: Measurement) -> float | None:
    """The same, from the two measurements: of the slowdown that `report.cost` will choose once the job has ended."""
    for found in slowdown_math.slowdowns(now, slowdown_math.rates(first).alone):
        if found.low is not None and found.high is not None:
            return (found.high - found.low) / (2 * found.value)
    return None


def _beside_each_other(jobs: Sequence[Json]) -> bool:
    first, second = jobs
    if any(job["state"] in ENDED for job in jobs):
        raise DemoFailed(f"job {first['id']} or {second['id']} ended before both ran: {_states(jobs)}.")
    return second["id"] in first["partners"] and all((job["live"] or {}).get("steps") for job in jobs)


def why_they_did_not_share(jobs: Sequence[Json]) -> str:
    waiting = next((job for job in jobs if job["state"] == "PENDING"), None)
    numbers = ((waiting or {}).get("verdict") or {}).get("numbers", {})
    foreign = numbers.get("foreign_pct") or 0.0
    if waiting is None or numbers.get("sum_pct") is None:
        return f"jobs {' and '.join(str(job['id']) for job in jobs)} did not come to share the device: {_states(jobs)}."
    return (
        f"job {waiting['id']} was not let in beside its partner: {numbers['sum_pct']:.0f}% would be used, {foreign:.0f}% of it "
        f"by other processes, and the limit is {numbers['limit_pct']:.0f}%. End some of those processes and try again."
    )


def check(seen: Seen) -> None:
    """The claims, each of which may fail. Raises DemoFailed."""
    refusal = seen.refusal or {}
    claims = [
        (all(known(job) for job in seen.alone) and bool(seen.alone), "a first run was not measured"),
        (overlapped(seen.together), "no two jobs shared the device"),
        (any(report.measured(job) for job in seen.together), "no slowdown was measured with an interval"),
        (bool(refusal), "the third job was not refused a place beside the two"),
    ]
    broken = [text for holds, text in claims if not holds]
    if broken:
        raise DemoFailed(
            f"{'; '.join(broken)}. Other work on the machine may be the cause: try again when it is less busy."
        )


def known(job: Json) -> bool:
    """Whether gpuq knows what this job needs."""
    return job["actual"].get("peak_utilization_pct") is not None and job["actual"].get("peak_memory_bytes") is not None


def overlapped(jobs: Sequence[Json]) -> bool:
    """Whether these are two jobs that ran on the same device at the same time."""
    return len(jobs) == 2 and jobs[0]["device"] == jobs[1]["device"] and report.overlap(*jobs) > 0


def _report(seen: Seen) -> list[str]:
    assert seen.refusal is not None, "checked before"
    return [*report.first_runs(seen.alone), *report.shared(seen.together), *report.refused(seen.refusal)]


# --- what both demos use -------------------------------------------------------------------------------------------


def watch(
    screen: Screen,
    gpuq: Gpuq,
    ids: Sequence[int],
    until: Callable[[list[Json]], bool],
    why_not: Callable[[list[Json]], str] | None = None,
) -> list[Json]:
    """Show these jobs until something holds of them. Raises DemoFailed with `why_not` if the demo takes too long."""
    with screen.board() as board:
        while True:
            jobs = [gpuq.job(number) for number in ids]
            board.show(jobs)
            if until(jobs):
                return jobs
            if screen.elapsed() > LIMIT_S:
                break
            time.sleep(LOOK_EVERY_S)
    if why_not is not None:
        raise DemoFailed(why_not(jobs))
    raise DemoFailed(f"it takes longer than {LIMIT_S:.0f} s: {_states(jobs)}. Try again when the machine is less busy.")


def all_completed(gpuq: Gpuq, jobs: Sequence[Json]) -> None:
    """Raises DemoFailed, with the end of its log, for a job that did not complete."""
    for job in jobs:
        if job["state"] != "COMPLETED":
            log = gpuq.run("logs", str(job["id"]))[-1000:]
            raise DemoFailed(
                f"job {job['id']} ({job['name']}) ended {job['state']}, exit code {job['exit_code']}:\n{log}"
            )


def _states(jobs: Sequence[Json]) -> str:
    return ", ".join(f"{job['id']} {job['name']} is {job['state']}" for job in jobs)


def refusal(gpuq: Gpuq, number: int, within_s: float = 15.0) -> Json | None:
    """The job as it was when it was refused a place for its load, or since its load is unknown; None if that did not happen."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        job = gpuq.job(number)
        verdict = job["verdict"] or {}
        if verdict.get("rule") in ("PredictedLoad", "FirstRunExclusive") and not verdict["admitted"]:
            return job
        if job["state"] != "PENDING":
            return None
        time.sleep(0.1)
    return None


def all_ended(jobs: Sequence[Json]) -> bool:
    return all(job["state"] in ENDED for job in jobs)


def _interrupted(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
