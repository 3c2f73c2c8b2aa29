"""What the progress hook costs a tight Keras loop, in percent of the time of a training step.

The hook looks at the optimizer's counter five times a second from a thread that sleeps otherwise. So what it costs is what the
steps beside a look take longer than the steps before them: the median of that, over some two hundred looks, times five a
second. This holds on a shared machine too, where the wall's time of whole segments says more about the neighbours. That
plain comparison is shown beside it with its uncertainty: segments with and without the hook's looks, in turns, in one
process, since the time of a step differs more between processes than what is looked for. The hook is the real one, brought
in by `sitecustomize`; the loop is what `fit` calls for each step, without its bookkeeping.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from bisect import bisect
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import median, quantiles

from benchmarks.site import ROOT
from benchmarks.table import Row
from workers.progress import hook_environment, read_progress

PAIRS = 60
# Three of the hook's looks, which come every 0.2 s.
_SEGMENT_S = 0.65
_REACH_PCT = 1.0
_NEIGHBOURS = 20


def run() -> list[Row]:
    """Percent of a step's time."""
    with tempfile.TemporaryDirectory() as name:
        progress = Path(name) / "progress"
        env = {
            **os.environ,
            **hook_environment(os.environ, progress),
            "CUDA_VISIBLE_DEVICES": "",
            "TF_CPP_MIN_LOG_LEVEL": "3",
        }
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.hook"], env=env, cwd=ROOT, check=True, capture_output=True, text=True
        )
        counted = read_progress(progress)
    told = json.loads(done.stdout.splitlines()[-1])
    if counted is None or counted.steps < told["steps_with"]:
        raise RuntimeError(f"the hook counted {counted} of {told['steps_with']} steps: it was not at work")
    step = told["step_s"]
    looks_per_step = step / told["look_every_s"]
    extra = [100 * (on / off - 1) for on, off in told["pairs"]]
    return [
        Row(
            "progress hook on a tight Keras loop",
            100 * looks_per_step * told["look_costs_s"] / step,
            "% of a step",
            _REACH_PCT,
        ),
        Row(
            "  one look",
            1e6 * told["look_costs_s"],
            "µs",
            note=f"of which {1e6 * told['look_cpu_s']:.0f} of its own CPU",
        ),
        Row("  one step", 1e6 * step, "µs"),
        Row("  segments with it / without it", median(extra), "% more", note=_within(extra)),
    ]


def _within(extra: list[float]) -> str:
    """Two standard errors of a median, the spread taken from the quartiles: a shared machine has wild outliers."""
    low, _, high = quantiles(extra, n=4)
    return f"± {1.96 * 1.25 * (high - low) / 1.349 / len(extra) ** 0.5:.1f} on this machine, 95%"


# --- in a process of its own ----------------------------------------------------------------------------------------


def main() -> None:
    """Prints what was measured."""
    step, hook = _training_step(), _Hook()
    _segment(step, 2.0)
    pairs, costs, middles, steps_with = [], [], [], 0
    for number in range(PAIRS):
        seconds = {}
        # Each goes first every other time: what drifts harms both alike.
        for on in (True, False) if number % 2 else (False, True):
            hook.turn(on)
            ends = _segment(step, _SEGMENT_S)
            seconds[on] = (ends[-1] - ends[0]) / (len(ends) - 1)
            if on:
                steps_with += len(ends)
                costs += [cost for look in hook.looks if (cost := _cost_of(look, ends)) is not None]
            else:
                middles.append(median(after - before for before, after in pairwise(ends)))
        pairs.append((seconds[True], seconds[False]))
    hook.turn(True)
    told = {"pairs": pairs, "steps_with": steps_with, "step_s": median(middles), "look_costs_s": median(costs)}
    print(json.dumps({**told, "look_every_s": hook.every_s, "look_cpu_s": hook.cpu_seconds()}))


class _Hook:
    """Turns the hook's looks off and on, and notes when they are. Its thread lives on, as in a job."""

    def __init__(self) -> None:
        import gpuq_progress  # there because `sitecustomize` of the hook runs first

        self._watch = gpuq_progress._keras
        self._look = self._watch.poll
        self.every_s = gpuq_progress._POLL_EVERY_S
        self.looks: list[tuple[float, float]] = []

    def turn(self, on: bool) -> None:
        """Whether steps are counted from now on."""
        self.looks = []
        self._watch.poll = self._noted if on else lambda: None

    def cpu_seconds(self, looks: int = 200) -> float:
        """CPU time of one look."""
        began = time.thread_time()
        for _ in range(looks):
            self._look()
        return (time.thread_time() - began) / looks

    def _noted(self) -> None:
        began = time.perf_counter()
        self._look()
        self.looks.append((began, time.perf_counter()))


def _cost_of(look: tuple[float, float], ends: list[float]) -> float | None:
    """What the steps during a look took longer than as many of those before it, in seconds; None at a segment's edge."""
    first, last = bisect(ends, look[0]), bisect(ends, look[1])
    if first <= _NEIGHBOURS or last >= len(ends):
        return None
    before = ends[first - 1 - _NEIGHBOURS : first]
    usual = median(after - earlier for earlier, after in pairwise(before))
    return ends[last] - ends[first - 1] - (last - first + 1) * usual


def _training_step() -> Callable[[], object]:
    import keras
    import numpy as np
    import tensorflow as tf

    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((32,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    x, y = np.random.default_rng(1).random((32, 32), "f"), np.zeros((32, 1), "f")
    batches = iter(tf.data.Dataset.from_tensors((x, y)).repeat())
    model.train_on_batch(x, y)
    # What `fit` calls for each step, without its bookkeeping around: as tight as a loop over Keras can be.
    return lambda: model.train_function(batches)


def _segment(step: Callable[[], object], seconds: float) -> list[float]:
    """Steps for about so long; when each ended, the first being the beginning."""
    ends = [time.perf_counter()]
    while ends[-1] - ends[0] < seconds:
        step()
        ends.append(time.perf_counter())
    return ends


if __name__ == "__main__":
    main()
