"""The corpus' safe kernels on two devices: guided chunks beside the best static share: `python -m benchmarks.split_times FILE`.

Three pairs of unequal devices without a GPU: two equal cores, a core beside one whose compiler does not optimise, and a core
beside one that works a part of the time. `--pairs Intel` is PoCL beside Intel's runtime (`pip install intel-opencl-rt
intel-cmplr-lib-rt`, with their `lib` in LD_LIBRARY_PATH, and a folder in OCL_ICD_VENDORS with a file `*.icd` for each runtime).
Launches are the corpus' own, grown until the faster device alone takes `--seconds`.

Times are those of a machine with nothing else to do, or they say nothing. Each kernel's figures are added to FILE, and kernels
that it has, measured with little beside them, are not measured again: with `--for-s` the whole is measured in parts.
`--for-s 0` only prints what the file has.

After the search for the best static share, guided chunks, that share and the better device alone run in turns; `later` is what a
launch that ran before does: it runs whole where its last split would have been slower. A run in which other programs took more
than 3% of a core is repeated; the least disturbed of five counts.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import sys
import time
from dataclasses import replace
from operator import itemgetter
from pathlib import Path

import numpy as np

from gpuq.errors import GpuqError
from gpuq.split.decide import faster_alone
from gpuq.split.history import features_of
from gpuq.split.launch import KernelLaunch, OpenClDevice, judged
from gpuq.split.parts import PreparedLaunch
from gpuq.split.predict import best_share, probed_shares
from gpuq.split.search import search
from gpuq.split.verdict import Correctness
from tests.split.corpus import CASES, data, launch_arguments

PAIRS = {
    "equal": (OpenClDevice(cores=(0,)), OpenClDevice(cores=(1,))),
    "not optimised": (OpenClDevice(cores=(0,)), OpenClDevice(cores=(1,), options="-cl-opt-disable")),
    "works 40%": (OpenClDevice(cores=(0,)), OpenClDevice(cores=(1,), duty=0.4)),
    "Intel": (OpenClDevice("Portable", cores=(0,)), OpenClDevice("Intel", cores=(1,))),
}
FIXED = {"bit_reversal": "its indices have 12 bits"}
# Which scalars are sizes of what grows, by their names in the corpus; where the names of a kernel mean something else, these do.
SIZES = {1: {"n"}, 2: {"h"}, 3: set()}
OF_KERNEL = {"columns": {"w"}, "unflattened_transpose": {"h"}, "nbody": set(), "scale": {"n"}}
MOST_BYTES = 3 << 30
CPU_ACCOUNTS = Path("/sys/fs/cgroup/cpuacct/cpuacct.usage")
MOST_TYPICAL_FOREIGN = 0.1
MOST_FOREIGN, MOST_TRIES, FOREIGN = 0.03, 5, itemgetter(0)


def grown(case, factor):
    """The case with so many times the work-items along its outermost dimension, or None if its buffers would be too large."""
    names = [re.split(r"[\s*]+", one.strip())[-1] for one in re.search(r"k\(([^)]*)\)", case.source)[1].split(",")]
    scaled = OF_KERNEL.get(case.name, SIZES[len(case.size)])
    arguments = tuple(
        one
        if isinstance(one, tuple) and one[0] == "local"
        else (one[0], one[1], one[2] * factor, one[3])
        if isinstance(one, tuple)
        else type(one)(one * factor)
        if name in scaled
        else one
        for name, one in zip(names, case.arguments, strict=True)
    )
    total = sum(one[2] * np.dtype(one[1]).itemsize for one in arguments if isinstance(one, tuple) and one[0] != "local")
    size = (*case.size[:-1], case.size[-1] * factor)
    return replace(case, size=size, arguments=arguments) if total <= MOST_BYTES else None


def launch_of(case):
    return KernelLaunch(case.source, "k", "", case.range, launch_arguments(case), data(case))


def large(case, device, seconds, limit_s):
    """(launch, verdict) that takes about so long on the device, or as long as its memory allows."""
    factor, last, found = 16, 0, None
    while factor > 1.25 * last:
        if (larger := grown(case, factor)) is None:
            factor = (factor + last) // 2
            continue
        launch = launch_of(larger)
        verdict = judged(launch)
        with PreparedLaunch(launch, verdict, (device,), limit_s=limit_s) as prepared:
            prepared.run()  # the driver compiles in the first
            took = prepared.run().seconds
        found = launch, verdict
        if took >= 0.7 * seconds:
            break
        last, factor = factor, int(factor * min(16.0, max(1.5, seconds / took)))
    return found


class Undisturbed:
    """Runs of a prepared launch beside which other programs did little. `foreign`: cores that they took in each."""

    def __init__(self, prepared):
        self.prepared, self.foreign = prepared, []

    def run(self, static=None):
        runs = []
        while not runs or (len(runs) < MOST_TRIES and min(runs, key=FOREIGN)[0] > MOST_FOREIGN):
            before, began = self._others(), time.perf_counter()
            result = self.prepared.run(static=static)
            runs.append(((self._others() - before) / (time.perf_counter() - began), result))
        foreign, result = min(runs, key=FOREIGN)
        self.foreign.append(foreign)
        return result

    def _others(self):
        """CPU seconds of all programs but this one and its devices' processes, since the start of the machine."""
        if CPU_ACCOUNTS.exists():
            machine = int(CPU_ACCOUNTS.read_text()) / 1e9
        else:
            user, nice, system, _, _, irq, softirq = map(int, Path("/proc/stat").read_text().split()[1:8])
            machine = (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")
        pids = [process.pid for process in self.prepared.processes]
        return machine - time.process_time() - sum(time.clock_gettime(~pid << 3 | 2) for pid in pids)


def measure(launch, verdict, devices, rounds, limit_s):
    """All figures of one launch on one pair."""
    with PreparedLaunch(launch, verdict, devices, limit_s=limit_s) as prepared:
        probe = prepared.run(only_probe=True).places
        quiet = Undisturbed(prepared)
        static = search(quiet, runs=1)
        best = min(static, key=static.__getitem__)
        better = (1.0, 0.0) if static[100] <= static[0] else (0.0, 1.0)
        ways = {"guided": None, "best": (best / 100, 1 - best / 100), "better": better}
        ran = {name: [] for name in ways}
        for _ in range(rounds):
            for name, share in ways.items():
                ran[name].append(quiet.run(static=share))
    seconds = {name: [one.seconds for one in runs] for name, runs in ran.items()}
    typical = {name: statistics.median(one) for name, one in seconds.items()}
    # A launch that ran before runs whole on the better device where that would have been faster.
    later = [
        other if faster_alone(launch, verdict, devices, one) is not None else one
        for one, other in zip(ran["guided"], ran["better"], strict=True)
    ]
    samples = probed_shares(*probe)
    alone = [static[100], static[0]]
    alone[better[0] == 0] = typical["better"]
    shares = [one.speeds[0] / sum(one.speeds) for one in ran["guided"] if all(one.speeds)]
    return {
        "alone": alone,
        "best share": best,
        **{f"{name} s": value for name, value in typical.items()},
        "guided / best": typical["guided"] / typical["best"],
        "guided / shortest static": typical["guided"] / min(static.values()),
        "later / best": statistics.median(one.seconds for one in later) / typical["best"],
        "later / better": statistics.median(
            one.seconds / other for one, other in zip(later, seconds["better"], strict=True)
        ),
        "efficiency": 1 / sum(1 / one for one in alone) / typical["guided"],
        "outside of kernels": statistics.median(1 - max(one.busy) / one.seconds for one in ran["guided"]),
        "both / better": statistics.median(
            one / other for one, other in zip(seconds["guided"], seconds["better"], strict=True)
        ),
        "probe off": 100 * abs(best_share(samples) - best / 100) if len(samples) else None,
        "history off": 100 * abs(statistics.median(shares) - best / 100) if shares else None,
        "features": features_of(launch),
        "foreign": statistics.median(quiet.foreign),
        "static": static,
        "seconds": seconds,
        "chunks": [one.chunks for one in ran["guided"]],
    }


def measure_pairs(case, options):
    """One line for each pair, or one line that says why the kernel is left out."""
    if case.name in FIXED:
        return [{"kernel": case.name, "left out": FIXED[case.name]}]
    try:
        made = large(case, PAIRS["equal"][0], options.seconds, options.limit_s)
        if made is None or made[1].answer is Correctness.REFUSED:
            return [{"kernel": case.name, "left out": made[1].reason if made else "its buffers would be too large"}]
        return [
            {
                "kernel": case.name,
                "pair": pair,
                "verdict": str(made[1].answer),
                **measure(*made, PAIRS[pair], options.rounds, options.limit_s),
            }
            for pair in options.pairs
        ]
    except GpuqError as error:
        return [{"kernel": case.name, "left out": error.message}]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--pairs", nargs="*", default=list(PAIRS)[:3], choices=list(PAIRS))
    parser.add_argument("--kernels", nargs="*")
    parser.add_argument("--limit-s", type=float, default=120.0)
    parser.add_argument("--for-s", type=float, default=float("inf"))
    options = parser.parse_args()
    ends_at = time.monotonic() + options.for_s
    lines = options.file.read_text().splitlines() if options.file.exists() else []
    found = {(row["kernel"], row.get("pair")): row for row in map(json.loads, lines)}
    known = {kernel for kernel, _ in found} - {row["kernel"] for row in found.values() if is_disturbed(row)}
    for case in CASES:
        if not case.safe or case.name in known or (options.kernels and case.name not in options.kernels):
            continue
        if time.monotonic() >= ends_at:
            break
        rows = measure_pairs(case, options)
        with options.file.open("a") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
        found.update({(row["kernel"], row.get("pair")): row for row in rows})
        print("\n".join(map(as_line, rows)), flush=True)
    measured = [row for row in found.values() if "pair" in row and not is_disturbed(row)]
    print(f"left out, because other programs worked beside them: {sum(map(is_disturbed, found.values()))} rows")
    for pair in [*options.pairs, None]:
        if rows := [row for row in measured if pair in (None, row["pair"])]:
            print(f"{pair or 'all':<15}{len(rows):>3} kernels  {summary(rows)}")
    return 0


def is_disturbed(row):
    return row.get("foreign", 0.0) > MOST_TYPICAL_FOREIGN


def as_line(row):
    if "left out" in row:
        return f"{row['kernel']:<24} left out: {row['left out']}"
    figures = "  ".join(f"{name} {value:.3f}" for name, value in row.items() if isinstance(value, float))
    return f"{row['kernel']:<24}{row['pair']:<15}{figures}"


def summary(rows):
    def over(name, *parts):
        values = [row[name] for row in rows if row.get(name) is not None]
        shown = ", ".join(f"{part} {np.quantile(values, {'median': 0.5, 'p95': 0.95}[part]):.3f}" for part in parts)
        return f"{name}: {shown}"

    both = (
        "guided / best",
        "later / best",
        "later / better",
        "guided / shortest static",
        "outside of kernels",
        "both / better",
        "probe off",
        "history off",
    )
    return "; ".join([*(over(name, "median", "p95") for name in both), over("efficiency", "median")])


if __name__ == "__main__":
    sys.exit(main())
