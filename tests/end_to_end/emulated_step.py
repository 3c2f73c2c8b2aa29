"""A training on emulated GPUs: steps of 20 ms, each as much longer as the emulator says that this process is slowed.

What it takes of each GPU (EMULATED_GPU, "percent,MiB") and for how long it trains, from when the driver shows it
(EMULATED_SECONDS), is in its environment, or a file in the emulator's folder (EMULATE) has it by the job's number: so jobs can
differ that look alike to gpuq. Steps keep to a timetable: what a busy machine takes from one is made up by the next. The
emulator takes it for a process on the GPU because "step.py" is in its name.
"""

import json
import os
import sys
import time
from pathlib import Path

import gpuq

STEP_S = 0.02
folder, me = Path(os.environ["EMULATE"]), str(os.getpid())
if "EMULATED_GPU" not in os.environ:
    plan = folder / "plans" / os.environ["GPUQ_JOB_ID"]
    while not plan.exists():
        time.sleep(STEP_S)
    # The emulator looks at the environment that a process was started with.
    os.execve(sys.executable, [sys.executable, __file__], {**os.environ, **json.loads(plan.read_text())})
mib = float(os.environ["EMULATED_GPU"].split(",")[1])
gpus = [device[-1] for device in os.environ["CUDA_VISIBLE_DEVICES"].split(",")]


def slowed() -> float:
    """By how much this process is slowed. Ends it where it would have ended on a GPU."""
    if (folder / "oom" / me).exists():
        sys.exit(f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {mib / 1024:.2f} GiB.")
    if any((folder / "crash" / gpu).exists() for gpu in gpus):
        sys.exit("torch.AcceleratorError: CUDA error: unspecified launch failure")
    factors: dict[str, float] = json.loads((folder / "slow.json").read_text())
    return factors.get(me, 1.0)


while slowed() and me not in (folder / "shown.pids").read_text().split():
    time.sleep(STEP_S)
due = time.monotonic()
end = due + float(os.environ["EMULATED_SECONDS"])
while due < end:
    due += STEP_S * slowed()
    time.sleep(max(0.0, due - time.monotonic()))
    gpuq.step()
