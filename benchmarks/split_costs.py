"""What the corpus' kernels cost at each place of a launch, and chunks played on these costs: `python -m benchmarks.split_costs`.

`--measure` runs each safe kernel in 64 pieces with the compiler's default and with `-cl-opt-disable`, and writes the CPU time of
each piece, so other programs matter little. Without it, devices of a pair take chunks in virtual time: a chunk takes what its
groups cost and 0.1 ms. This leaves out what a machine adds, such as memory that both devices use: see `benchmarks.split_times`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gpuq.split.chunks import Chunks
from gpuq.split.predict import best_share, probed_shares

STORED = Path(__file__).parent.parent / "tests" / "split" / "corpus_costs.json"
PIECES, GROUPS, CHUNK_S = 64, 1 << 16, 0.0001
OPTIONS = {"default": "", "not optimised": "-cl-opt-disable"}
PAIRS = {"equal": ("default", 1.0), "not optimised": ("not optimised", 1.0), "works 40%": ("default", 0.4)}


@dataclass(frozen=True)
class Cost:
    """Seconds of a device from the launch's start to any group; groups of one piece cost the same."""

    until: np.ndarray

    @classmethod
    def of(cls, pieces, seconds):
        """The shape of the pieces, `seconds` for the whole."""
        return cls(np.concatenate([[0], np.cumsum(pieces)]) * seconds / sum(pieces))

    def seconds(self, first, end):
        places = np.array([first, end]) * PIECES / GROUPS
        low, high = np.interp(places, np.arange(PIECES + 1), self.until)
        return float(high - low)


def play(costs, speeds=(None, None)):
    """(chunks, when both have ended) in virtual time; chunks are ordered ahead as in a run."""
    chunks, clock, begun, waiting = Chunks(GROUPS, list(speeds)), [0.0, 0.0], [None, None], {0, 1}
    following = [None, None]
    while waiting:
        device = min(waiting, key=clock.__getitem__)
        if begun[device] is not None:
            chunks.finished(device, *begun[device])
        taken = following[device] or chunks.take(device)
        if taken is None:
            waiting.remove(device)
            continue
        took = costs[device].seconds(*taken) + CHUNK_S
        begun[device], following[device] = (*taken, took), chunks.take_ahead(device)
        clock[device] += took
    return chunks, max(clock)


def best_static(costs):
    """(share, seconds) of the best of 101 shares."""
    ends = {
        points: max(costs[0].seconds(0, GROUPS * points / 100), costs[1].seconds(GROUPS * points / 100, GROUPS))
        + CHUNK_S
        for points in range(101)
    }
    best = min(ends, key=ends.__getitem__)
    return best / 100, ends[best]


def figures(costs):
    share, static = best_static(costs)
    chunks, guided = play(costs)
    _, again = play(costs, chunks.rates())
    alone = [one.seconds(0, GROUPS) for one in costs]
    places = [
        [((first + end) / 2 / GROUPS, (end - first) / took) for first, end, took in one[:3]] for one in chunks.done
    ]
    samples = probed_shares(*places)
    speeds = chunks.rates()
    return {
        "guided / best": guided / static,
        "with history / best": again / static,
        "efficiency": 1 / sum(1 / one for one in alone) / guided,
        "both / better": guided / min(alone),
        "probe off": 100 * abs(best_share(samples) - share),
        "history off": 100 * abs(speeds[0] / sum(speeds) - share),
    }


def stored():
    """What `--measure` has written: CPU seconds of pieces by kernel and options."""
    return json.loads(STORED.read_text()) if STORED.exists() else {}


def of_pair(pieces, pair, seconds):
    """The costs of a launch on both devices of a pair, which takes so long on the first."""
    other, duty = PAIRS[pair]
    ratio = sum(pieces[other]) / sum(pieces["default"]) / duty
    return Cost.of(pieces["default"], seconds), Cost.of(pieces[other], seconds * ratio)


def played(costs, seconds):
    """Figures by (kernel, pair) of launches that take so long on the first device."""
    return {
        (kernel, pair): figures(of_pair(pieces, pair, seconds)) for kernel, pieces in costs.items() for pair in PAIRS
    }


def measure(case, seconds):
    """CPU seconds of each piece, by the compiler's options."""
    import pyopencl as cl

    from benchmarks.split_times import FIXED, grown, launch_of
    from gpuq.split.device import prelude
    from gpuq.split.launch import judged

    dimension = judged(launch_of(case)).dimension
    cl_context = cl.Context(cl.get_platforms()[0].get_devices())
    queue = cl.CommandQueue(cl_context)

    def run(launch, options, pieces):
        source = prelude(list(launch.range.offset), list(launch.range.size)) + launch.source
        kernel = cl.Kernel(cl.Program(cl_context, source).build(options=options.split()), launch.kernel)
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        buffers = {name: cl.Buffer(cl_context, flags, hostbuf=one) for name, one in launch.buffers.items()}
        for number, one in enumerate(launch.arguments):
            kernel.set_arg(
                number,
                buffers[one] if isinstance(one, str) else cl.LocalMemory(one.bytes) if hasattr(one, "bytes") else one,
            )
        cuts = np.linspace(0, launch.range.groups(dimension), pieces + 1).astype(int)
        took = []
        for first, end in [(0, 1), *itertools.pairwise(cuts)]:
            offset, size, local = [0] * len(launch.range.size), list(launch.range.size), launch.range.local
            offset[dimension], size[dimension] = int(first) * local[dimension], int(end - first) * local[dimension]
            began = time.process_time()
            cl.enqueue_nd_range_kernel(queue, kernel, size, local, global_work_offset=offset).wait()
            took.append(time.process_time() - began)
        return took[1:]  # the first compiles

    factor, launch = 16, launch_of(grown(case, 16))
    if case.name not in FIXED:
        took = sum(run(launch, "", 4))
        factor = int(factor * max(1, min(256, seconds / took)))
        while (larger := grown(case, factor)) is None or sum(
            a[2] for a in larger.arguments if isinstance(a, tuple) and a[0] != "local"
        ) > 1 << 25:
            factor = factor // 2
        launch = launch_of(larger)
    least = {name: np.min([run(launch, words, PIECES) for _ in range(5)], axis=0) for name, words in OPTIONS.items()}
    return {name: [float(f"{one:.3g}") for one in pieces] for name, pieces in least.items()}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--measure", type=float, metavar="SECONDS")
    parser.add_argument("--seconds", type=float, nargs="*", default=[0.1, 0.4, 2.0])
    options = parser.parse_args()
    costs = stored()
    if options.measure:
        from gpuq.split.pocl import name_cpu_for_pocl
        from tests.split.corpus import CASES

        os.environ |= {"POCL_MAX_PTHREAD_COUNT": "1", "POCL_WORK_GROUP_SPECIALIZATION": "0"}
        name_cpu_for_pocl()
        for case in CASES:
            if case.safe and case.name not in costs:
                costs[case.name] = measure(case, options.measure)
                print(case.name, {name: round(sum(one), 4) for name, one in costs[case.name].items()}, flush=True)
                lines = (f'"{name}": {json.dumps(pieces)}' for name, pieces in costs.items())
                STORED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    for seconds in options.seconds:
        found = played(costs, seconds)
        for pair in [*PAIRS, None]:
            rows = [row for (_, other), row in found.items() if pair in (None, other)]
            shown = "; ".join(
                f"{name} {np.median([row[name] for row in rows]):.3f}, {np.quantile([row[name] for row in rows], 0.95):.3f}"
                for name in rows[0]
            )
            print(f"{seconds:g} s  {pair or 'all':<15}{len(rows):>3} kernels  median, p95: {shown}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
