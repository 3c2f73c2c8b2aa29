"""The demo on eight emulated GPUs: NVIDIA's mock of its driver library, and jobs that only wait. About a minute.

`GPUQ_NVML_MOCK` names the folder with the library, its configurations and `emulate.py`, which gives it the load of the jobs and
slows them where they share: `step.py` is such a job. What gpuq reads, decides and measures is real; the computing is not, and
nothing here says how GPUs contend.

      0 s  gpuq starts and finds eight H100s
      5 s  first runs: four kinds that gpuq does not know, each alone on its device; one of them wants four devices at once
     25 s  second runs fill the machine: two share a device, and one is refused beside a third
     50 s  everything is ended
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import workloads
from workloads.demo import report
from workloads.demo.gpuq import DemoFailed, Gpuq, Json
from workloads.demo.screen import Screen
from workloads.demo.story import (
    all_completed,
    all_ended,
    ended_in_order,
    known,
    overlapped,
    refusal,
    watch,
    why_they_did_not_share,
)

DEFAULT_MOCK = Path(workloads.__file__).parents[2] / "shared" / "nvml"
LIBRARY, CONFIG = "libnvidia-ml.so.1", "configs/mock-nvml-config-h100.yaml"
NEEDED = (LIBRARY, CONFIG, "emulate.py", "step.py")
GPUS = 8
# Of 20 ms each. gpuq leaves out the first 5 s and measures in windows of 5 s; the two that share do not start in the same second.
STEPS = 1000
EMULATOR_ENDS_WITHIN_S = 5.0


@dataclass(frozen=True)
class Load:
    """What an emulated job wants of each of its devices: percent of its time, and MiB of its memory."""

    name: str
    percent: int
    mib: int
    gpus: int = 1


VISION, SPEECH = Load("vision", 55, 20_000), Load("speech", 55, 16_000)
LANGUAGE, LARGE = Load("language", 90, 30_000), Load("large", 70, 60_000, gpus=4)


@dataclass
class Seen:
    """What really happened, for the report and for the claims."""

    devices: list[str] = field(default_factory=list)
    alone: list[Json] = field(default_factory=list)
    gang: Json | None = None
    together: list[Json] = field(default_factory=list)
    refusal: Json | None = None
    emulated: float = 1.0
    """The slowdown that the emulator gave the two that shared."""


def main() -> int:
    """Run the demo; 0 only if all it set out to show was seen."""
    screen = Screen()
    with ended_in_order(screen) as code:
        mock = folder(os.environ)
        seen = Seen()
        screen.say(
            "gpuq demo on EMULATED GPUs: NVIDIA's mock of its driver library, with the load of\n"
            "emulated jobs. gpuq, its measuring and its decisions are real; the GPUs are not."
        )
        _run(screen, mock, seen)
        check(seen)
        screen.say()
        for line in report_lines(seen):
            screen.say(line)
        screen.say()
    return code[0]


def folder(environ: Mapping[str, str]) -> Path:
    """The folder of the mock library. Raises DemoFailed, with what is missing and what to set."""
    found = Path(environ.get("GPUQ_NVML_MOCK") or DEFAULT_MOCK).resolve()
    missing = [name for name in NEEDED if not (found / name).exists()]
    if missing:
        raise DemoFailed(
            f"{found} has no {', '.join(missing)}. Set GPUQ_NVML_MOCK to the folder with NVIDIA's mock driver library "
            f"({', '.join(NEEDED)})."
        )
    return found


def _run(screen: Screen, mock: Path, seen: Seen) -> None:
    with tempfile.TemporaryDirectory(prefix="gpuq-emulated-") as scratch:
        state = Path(scratch).resolve()
        (state / "config.yaml").write_bytes((mock / CONFIG).read_bytes())
        settings = {
            "GPUQ_DEVICES_BACKEND": "nvml",
            "LD_LIBRARY_PATH": str(mock),
            "MOCK_NVML_CONFIG": str(state / "config.yaml"),
        }
        with _emulator(mock, state), Gpuq(settings) as gpuq:
            gpuq.wait_ready()
            seen.devices = [device["id"] for device in gpuq.get("/api/v1/gpus")]
            if len(seen.devices) != GPUS:
                raise DemoFailed(
                    f"gpuq found {len(seen.devices)} devices and not {GPUS}; is {mock / LIBRARY} the mock?"
                )
            _first_runs(screen, gpuq, _Jobs(gpuq, mock, state), seen)
            _second_runs(screen, gpuq, _Jobs(gpuq, mock, state), seen)


@contextmanager
def _emulator(mock: Path, state: Path) -> Iterator[None]:
    """Runs `emulate.py` from the folder of the mock, over state of our own; ended afterwards."""
    with (state / "emulate.log").open("wb") as log:
        process = subprocess.Popen([sys.executable, str(mock / "emulate.py"), str(state)], stdout=log, stderr=log)
    try:
        yield
        if process.poll() is not None:
            said = (state / "emulate.log").read_text(errors="replace").strip().splitlines()
            raise DemoFailed(f"emulate.py ended with {process.returncode}: {said[-1] if said else 'it said nothing'}")
    finally:
        process.terminate()
        try:
            process.wait(EMULATOR_ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@dataclass(frozen=True)
class _Jobs:
    """Submits emulated jobs."""

    gpuq: Gpuq
    mock: Path
    state: Path

    def submit(self, load: Load) -> int:
        """The number of a new job with this load."""
        variables = ("-e", f"EMULATE={self.state}", "-e", f"EMULATED_GPU={load.percent},{load.mib}")
        options = ("--name", load.name, "--kind", load.name, "--gpus", str(load.gpus), *variables)
        return int(self.gpuq.run("submit", "--parsable", *options, str(self.mock / "step.py"), str(STEPS)))


def _first_runs(screen: Screen, gpuq: Gpuq, jobs: _Jobs, seen: Seen) -> None:
    screen.act(f"{GPUS} GPUs found. First runs, each alone, since nothing is known of the four.")
    ids = [jobs.submit(load) for load in (LARGE, LANGUAGE, VISION, SPEECH)]
    seen.alone = watch(screen, gpuq, ids, all_ended)
    all_completed(gpuq, seen.alone)


def _second_runs(screen: Screen, gpuq: Gpuq, jobs: _Jobs, seen: Seen) -> None:
    screen.act("Second runs: one takes four GPUs, three take one each, two more are left.")
    filling = [jobs.submit(load) for load in (LARGE, LANGUAGE, LANGUAGE, LANGUAGE)]
    watch(screen, gpuq, filling, _all_run)
    vision = jobs.submit(VISION)
    watch(screen, gpuq, [vision], _all_run)
    waiting = jobs.submit(LANGUAGE)
    seen.refusal = refusal(gpuq, waiting)
    gpuq.run("cancel", str(waiting))
    pair = [vision, jobs.submit(SPEECH)]
    watch(screen, gpuq, pair, _beside_each_other, why_not=why_they_did_not_share)

    def over(found: Sequence[Json]) -> bool:
        note_slowdown(jobs.state, seen)
        return all_ended(found)

    seen.together = watch(screen, gpuq, pair, over)
    ended = watch(screen, gpuq, filling, all_ended)
    all_completed(gpuq, [*ended, *seen.together])
    seen.gang = ended[0]


def _all_run(found: Sequence[Json]) -> bool:
    return all(job["state"] == "RUNNING" for job in found)


def _beside_each_other(found: Sequence[Json]) -> bool:
    return bool(found[0]["partners"]) or all_ended(found)


def note_slowdown(state: Path, seen: Seen) -> None:
    """Keep the largest slowdown that the emulator has given so far."""
    with suppress(OSError, ValueError):  # it may be writing the file
        seen.emulated = max([seen.emulated, *json.loads((state / "slow.json").read_text()).values()])


def check(seen: Seen) -> None:
    """The claims, each of which may fail. Raises DemoFailed."""
    claims = [
        (bool(seen.alone) and all(map(known, seen.alone)), "a first run was not measured"),
        (len((seen.gang or {}).get("devices", ())) == LARGE.gpus, "no job got four GPUs"),
        (overlapped(seen.together), "no two jobs shared a GPU"),
        (
            bool(seen.together) and all(map(report.measured, seen.together)),
            "a slowdown was not measured with an interval",
        ),
        (seen.refusal is not None, "no job was refused a place for its load"),
    ]
    broken = [text for holds, text in claims if not holds]
    if broken:
        raise DemoFailed(f"{'; '.join(broken)}. Try again when the machine is less busy.")


def report_lines(seen: Seen) -> Sequence[str]:
    """What happened, as lines of text; for what passed `check`."""
    assert seen.gang is not None, "checked before"
    assert seen.refusal is not None, "checked before"
    gang = f"{seen.gang['id']} {seen.gang['name']} on {', '.join(_device(seen, device) for device in seen.gang['devices'])}"
    return [
        *report.first_runs(seen.alone),
        *report.section("gang", [f"{gang}: all four at once"]),
        *report.shared(seen.together, on=_device(seen, seen.together[0]["device"])),
        *report.section("emulated", [f"the work of each step of both takes {report.lost(seen.emulated)} longer"]),
        *report.refused(seen.refusal),
    ]


def _device(seen: Seen, device: str) -> str:
    """A device by its number, as `nvidia-smi` counts."""
    return f"gpu{seen.devices.index(device)}"
