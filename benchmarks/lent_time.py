"""The accelerator time that lent cores save: `python -m benchmarks.lent_time`, on two cores or more, with the extra `split`.

Two CPU devices of a core each; one plays the accelerator of a job that runs `gpuq split run`. The job runs without and with the
idle core of the other device in turns. Predicted before each run with it: the time of the kernel without it, times the part that
the launch's own history gives to the lent core. Measured: how much sooner the accelerator was free, from start to end of the job.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from datetime import datetime
from pathlib import Path

from benchmarks.site import ROOT, Gpuq, wait_for
from gpuq.split.history import LaunchHistory
from gpuq.split.launch import load

LAUNCH = """
source = '''
__kernel void k(__global const float* a, __global float* b, int n) {{
    int x = get_global_id(0);
    float u = a[x];
    for (int i = 0; i < n; i++) u = u * 1.0000001f + 0.25f * (1 - u);
    b[x] = u;
}}'''
name = "k"
global = [1048576]
local = [64]
[[arguments]]
buffer = "a"
size = 1048576
fill = "random"
[[arguments]]
buffer = "b"
size = 1048576
[[arguments]]
scalar = {count}
type = "int32"
[[devices]]
[[devices]]
lent = true
"""


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--count", type=int, default=20_000, help="steps of each work-item")
    options = parser.parse_args()
    with Gpuq(devices_cpu_count=2, devices_cpu_cores=1, devices_cpu_memory_fraction=0.3) as gpuq:
        home = Path(gpuq.home.root)
        path = home / "launch.toml"
        path.write_text(LAUNCH.format(count=options.count))
        launch, history = load(path), LaunchHistory(home / "of-job" / "gpuq" / "split")

        def run(cores):
            """(seconds that the device was the job's, what the command printed)"""
            words = [sys.executable, "-m", "gpuq.split", "run", "--json", str(path)]
            env = {"PYTHONPATH": str(ROOT), "XDG_STATE_HOME": str(home / "of-job")}  # jobs do not get GPUQ_HOME
            job = gpuq.submit({"command": words, "lend_cores": cores, "env": env})[0]
            # Seldom: what looks is beside the job, and the record has the times.
            wait_for(lambda: gpuq.state(job) in ("COMPLETED", "FAILED"), 240, every_s=0.5)
            view = gpuq.get(f"/api/v1/jobs/{job}")
            log = next(home.glob(f"attempts/{job}-*/**/output.log")).read_text()
            started, ended = (datetime.fromisoformat(view[name]) for name in ("started_at", "ended_at"))
            return (ended - started).total_seconds(), json.loads(log.splitlines()[-1])

        while history.find(launch, launch.devices).share() is None:
            run(1)  # its history, and the machine code in the runtime's cache
        rows = []
        for _ in range(options.rounds):
            alone, printed = run(0)
            predicted = printed["seconds"] * (1 - history.find(launch, launch.devices).share())
            with_core, both = run(1)
            rows.append((alone - with_core, predicted))
            print(
                f"alone {alone:.2f} s, with a lent core {with_core:.2f} s (share {both['share']}): saved "
                f"{alone - with_core:.2f} s, predicted {predicted:.2f} s, {(alone - with_core) / predicted:.2f}",
                flush=True,
            )
    print(f"saved / predicted: median {statistics.median(one / other for one, other in rows):.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
