"""The corpus' safe kernels on two devices: guided chunks beside the best static share: `python -m benchmarks.split_times`.

Three pairs of unequal devices without a GPU: two equal cores, a core beside one whose compiler does not optimise, and a core
beside one that works a part of the time. Launches are the corpus' own, grown until the faster device alone takes `--seconds`.
Times are those of a machine with nothing else to do, or they say nothing.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from gpuq.errors import GpuqError
from gpuq.split.launch import KernelLaunch, OpenClDevice, judged
from gpuq.split.parts import PreparedLaunch
from gpuq.split.predict import best_share
from gpuq.split.search import search
from gpuq.split.verdict import Correctness
from tests.split.corpus import CASES, data

PAIRS = {
    "equal": (OpenClDevice(cores=(0,)), OpenClDevice(cores=(1,))),
    "not optimised": (OpenClDevice(cores=(0,)), OpenClDevice(cores=(1,), options="-cl-opt-disable")),
    "works 40%": (OpenClDevice(cores=(0,)), OpenClDevice(cores=(1,), duty=0.4)),
}
FIXED = {"bit_reversal": "its indices have 12 bits"}
# Which scalars are sizes of what grows, by their names in the corpus; where the names of a kernel mean something else, these do.
SIZES = {1: {"n"}, 2: {"h"}, 3: set()}
OF_KERNEL = {"columns": {"w"}, "unflattened_transpose": {"h"}, "nbody": set(), "scale": {"n"}}
MOST_BYTES = 768 << 20


def grown(case, factor):
    """The case with so many times the work-items along its outermost dimension, or None if its buffers would be too large."""
    names = [re.split(r"[\s*]+", one.strip())[-1] for one in re.search(r"k\(([^)]*)\)", case.source)[1].split(",")]
    scaled = OF_KERNEL.get(case.name, SIZES[len(case.size)])
    arguments = tuple(
        (one[0], one[1], one[2] * factor, one[3])
        if isinstance(one, tuple)
        else type(one)(one * factor)
        if name in scaled
        else one
        for name, one in zip(names, case.arguments, strict=True)
    )
    total = sum(one[2] * np.dtype(one[1]).itemsize for one in arguments if isinstance(one, tuple))
    size = (*case.size[:-1], case.size[-1] * factor)
    return replace(case, size=size, arguments=arguments) if total <= MOST_BYTES else None


def launch_of(case):
    arguments = tuple(one[0] if isinstance(one, tuple) else one for one in case.arguments)
    return KernelLaunch(case.source, "k", "", case.range, arguments, data(case))


def large(case, device, seconds, limit_s):
    """(launch, verdict) that takes about so long on the device, or as long as its memory allows."""
    factor, found = 16, None
    while (larger := grown(case, factor)) is not None:
        launch = launch_of(larger)
        verdict = judged(launch)
        with PreparedLaunch(launch, verdict, (device,), limit_s=limit_s) as prepared:
            took = prepared.run().seconds
        found = launch, verdict
        if took >= 0.7 * seconds:
            break
        factor = int(factor * min(16.0, max(1.5, seconds / took)))
    return found


def measure(launch, verdict, devices, runs, limit_s):
    """All figures of one launch on one pair."""
    fill = 1 if verdict.answer is Correctness.CHECK else None
    with PreparedLaunch(launch, verdict, devices, limit_s=limit_s, fill=fill) as prepared:
        probe = prepared.run(only_probe=True).places
        static, guided = search(prepared, runs)
        best = min(static, key=static.__getitem__)
        better = (1.0, 0.0) if static[100] <= static[0] else (0.0, 1.0)
        pairs, outside, shares = [], [], []
        for _ in range(9):
            both = prepared.run()
            pairs.append(both.seconds / prepared.run(static=better).seconds)
            outside.append(1 - max(both.busy) / both.seconds)
            shares.append(both.speeds[0] / sum(both.speeds))
    samples = np.array([one / (one + other) for one in probe[0] for other in probe[1]])
    ideal = 1 / (1 / static[100] + 1 / static[0])
    return {
        "alone": [static[100], static[0]],
        "best share": best,
        "best": static[best],
        "guided": guided,
        "guided / best": guided / static[best],
        "efficiency": ideal / guided,
        "outside of kernels": statistics.median(outside),
        "both / better": statistics.median(pairs),
        "probe off": 100 * abs(best_share(samples) - best / 100) if len(samples) else None,
        "history off": 100 * abs(statistics.median(shares) - best / 100),
    }


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--pairs", nargs="*", default=list(PAIRS), choices=list(PAIRS))
    parser.add_argument("--kernels", nargs="*")
    parser.add_argument("--limit-s", type=float, default=120.0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    chosen = [case for case in CASES if case.safe and (not options.kernels or case.name in options.kernels)]
    found = []
    for case in chosen:
        if case.name in FIXED:
            print(f"{case.name:<24} left out: {FIXED[case.name]}", flush=True)
            continue
        try:
            made = large(case, PAIRS["equal"][0], options.seconds, options.limit_s)
            if made is None or made[1].answer is Correctness.REFUSED:
                print(f"{case.name:<24} left out: {made and made[1].reason}", flush=True)
                continue
            for pair in options.pairs:
                row = measure(*made, PAIRS[pair], options.runs, options.limit_s)
                found.append({"kernel": case.name, "pair": pair, "verdict": str(made[1].answer), **row})
                print(f"{case.name:<24}{pair:<15}" + figures(row), flush=True)
        except GpuqError as error:
            print(f"{case.name:<24} left out: {error.message}", flush=True)
    if options.out:
        options.out.write_text(json.dumps(found, indent=1))
    for pair in [*options.pairs, None]:
        rows = [row for row in found if pair in (None, row["pair"])]
        if rows:
            print(f"{pair or 'all':<15}{len(rows):>3} kernels  {summary(rows)}")
    return 0


def figures(row):
    return "  ".join(
        f"{name} {value:.3f}" for name, value in row.items() if isinstance(value, float) and name != "guided"
    )


def summary(rows):
    ratios = [row["guided / best"] for row in rows]
    lines = [
        f"guided / best: median {np.median(ratios):.3f}, p95 {np.quantile(ratios, 0.95):.3f}",
        *(
            f"{name}: median {np.median(values):.3f}"
            for name in ("efficiency", "outside of kernels", "both / better", "probe off", "history off")
            if (values := [row[name] for row in rows if row[name] is not None])
        ),
    ]
    return "; ".join(lines)


if __name__ == "__main__":
    sys.exit(main())
