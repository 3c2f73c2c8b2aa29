"""Recognise handwritten digits (MNIST's shape) with a multilayer perceptron in NumPy alone, fed from storage.

The samples lie in one file. A loader thread reads a batch at a time from it while the network trains on the batch before; with
`--storage-mbps` it reads at the pace of slow shared storage, and the network then waits for its input as many real trainings do.
`--threads` splits each batch over so many threads. It needs no framework and starts within a second.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path

if __name__ == "__main__":
    # `--threads` says how many threads compute; each multiplies matrices by itself. NumPy's libraries read this when they load.
    os.environ.update(dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"), "1"))
if not __package__:  # run as a file: the other modules lie beside it
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np

import gpuq
from workloads import common
from workloads.datasets import mnist
from workloads.progress import Progress, say

PIXELS = mnist.SIDE * mnist.SIDE
ROW_BYTES = PIXELS + 1
MODELS = {"small": (512,), "deep": (384, 384, 384), "wide": (2048, 2048)}
"""The widths of the hidden layers."""
SAMPLES = 1024
Weights = list[tuple[np.ndarray, np.ndarray]]
Batch = tuple[np.ndarray, np.ndarray]


def main(arguments: list[str] | None = None) -> int:
    """Train, and return the exit code."""
    options = _flags().parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="mlp-") as scratch:
        file = prepare(options.data_dir or Path(scratch), options.samples, options.seed)
        say(f"data: synthetic, {options.samples} digits of {mnist.SIDE}x{mnist.SIDE} in {file}")
        return train(file, options)


def _flags() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    add("--model", choices=sorted(MODELS), default="small", help="the network")
    add("--batch-size", type=common.positive, default=256, metavar="N", help="samples in one gradient step")
    add("--epochs", type=common.positive, default=10000, metavar="N", help="times through the data")
    add("--steps", type=common.count, default=0, metavar="N", help="end after this many steps; 0: no limit")
    add("--seconds", type=common.amount, default=0, metavar="S", help="end after training this long; 0: no limit")
    add("--stop-file", type=Path, metavar="FILE", help="end after the step in which this file appears")
    add("--samples", type=common.positive, default=SAMPLES, metavar="N", help="samples of synthetic data")
    add(
        "--data-dir",
        type=Path,
        metavar="DIR",
        help="folder of the file made for training; a temporary one if not given",
    )
    add("--storage-mbps", type=common.amount, default=0, metavar="MB", help="pace of reading, MB/s; 0: full speed")
    add("--lr", type=common.amount, default=0.05, metavar="RATE", help="learning rate")
    add("--threads", type=common.positive, default=1, metavar="N", help="threads that compute")
    add("--seed", type=common.count, default=0, metavar="N", help="seed of data, weights and order")
    return parser


def train(file: Path, options: argparse.Namespace) -> int:
    """Take steps until the first limit is reached; print the summary; return the exit code."""
    shards = max(1, file.stat().st_size // ROW_BYTES // options.batch_size)
    order = common.Order(shards, 1, options.seed)
    progress = Progress(options, shards)
    signal.signal(signal.SIGTERM, lambda *_: progress.end("stopped"))
    weights = start_weights(options.model, options.seed)
    load = partial(batch, file, common.Pace(options.storage_mbps * 1e6), order, options.batch_size)
    began, cpu = time.monotonic(), time.process_time()
    with common.batches(load) as data, ThreadPoolExecutor(options.threads) as pool:
        while progress.ended is None:
            loss = step(weights, progress.timed(lambda: next(data)), options.lr, options.threads, pool)
            progress.step(loss)
            gpuq.step()  # a loop without a framework counts its steps itself; outside of a gpuq job this does nothing
            if options.stop_file is not None and options.stop_file.exists():
                progress.end("stop file")
    asked = {name: str(value) if isinstance(value, Path) else value for name, value in vars(options).items()}
    used = {"cpu_seconds": round(time.process_time() - cpu, 3), "wall_seconds": round(time.monotonic() - began, 3)}
    say(json.dumps({"asked": asked, **progress.summary(), **used}))
    return common.SIGTERM_EXIT if progress.ended == "stopped" else 0


def prepare(folder: Path, samples: int, seed: int) -> Path:
    """The file of the samples, a label and its pixels in each row; made once."""
    file = folder / f"digits-{samples}-{seed}"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        digits, labels = mnist.synthetic(samples, seed)
        rows = np.concatenate([labels[:, None].astype(np.uint8), digits.reshape(samples, PIXELS)], axis=1)
        made = file.with_suffix(f".{os.getpid()}")
        made.write_bytes(rows.tobytes())
        made.replace(file)
    return file


def batch(file: Path, pace: common.Pace, order: common.Order, size: int, number: int) -> Batch:
    """The images, from -0.5 to 0.5, and labels of one batch, read from storage."""
    pace.wait(size * ROW_BYTES)
    with file.open("rb") as stream:
        stream.seek(int(order.chosen(number)[0]) * size * ROW_BYTES)
        rows = np.frombuffer(stream.read(size * ROW_BYTES), np.uint8).reshape(-1, ROW_BYTES)
    return rows[:, 1:].astype(np.float32) / 255 - 0.5, rows[:, 0].astype(np.int64)


def start_weights(model: str, seed: int) -> Weights:
    """He's initialisation."""
    random = np.random.default_rng(seed)
    sizes = (PIXELS, *MODELS[model], mnist.CLASSES)
    return [
        (
            (random.standard_normal((fan_in, fan_out)) * np.sqrt(2 / fan_in)).astype(np.float32),
            np.zeros(fan_out, np.float32),
        )
        for fan_in, fan_out in pairwise(sizes)
    ]


def step(weights: Weights, data: Batch, rate: float, threads: int, pool: Executor) -> float:
    """One step of gradient descent, in place; the loss before it. Each thread computes the gradient of a part of the batch."""
    images, labels = data
    parts = [(images[part::threads], labels[part::threads]) for part in range(min(threads, len(labels)))]
    found = list(pool.map(partial(gradient, weights), parts))
    shares = [len(part[1]) / len(labels) for part in parts]
    for share, (_, gradients) in zip(shares, found, strict=True):
        for arrays, slopes in zip(weights, gradients, strict=True):
            for array, slope in zip(arrays, slopes, strict=True):
                np.subtract(array, rate * share * slope, out=array)
    return sum(share * loss for share, (loss, _) in zip(shares, found, strict=True))


def gradient(weights: Weights, data: Batch) -> tuple[float, Weights]:
    """The mean cross-entropy of these samples, and its gradient."""
    images, labels = data
    outputs = _forward(weights, images)
    logits = outputs[-1] - outputs[-1].max(axis=1, keepdims=True)
    likely = np.exp(logits)
    likely /= likely.sum(axis=1, keepdims=True)
    here = np.arange(len(labels))
    loss = float(-np.log(likely[here, labels] + 1e-9).mean())
    likely[here, labels] -= 1
    back = likely / len(labels)
    found: Weights = []
    for layer in range(len(weights) - 1, -1, -1):
        found.append((outputs[layer].T @ back, back.sum(axis=0)))
        if layer:
            back = (back @ weights[layer][0].T) * (outputs[layer] > 0)
    return loss, found[::-1]


def _forward(weights: Weights, images: np.ndarray) -> Sequence[np.ndarray]:
    """What each layer gets, and at the end what the last one gives."""
    outputs = [images]
    for layer, (weight, bias) in enumerate(weights):
        x = outputs[-1] @ weight + bias
        outputs.append(np.maximum(x, 0) if layer < len(weights) - 1 else x)
    return outputs


if __name__ == "__main__":
    sys.exit(main())
