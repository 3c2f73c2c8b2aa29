"""Small trainings for benchmarks: `python -m benchmarks.steppers NAME`, each step counted, until it is stopped.

`light` and `heavy` multiply matrices; `memory` walks through far more than the caches hold; `bursty` is quick for a while and
then waits, as for data; `single` computes in one thread; `waits` computes a quarter of the time, and waits for input in the
rest; `loader` waits for two forked processes that make its input; `keras` trains a small convolutional network, and is counted
by the hook alone. `short` and `long` do nothing but wait for a device that works off what it is asked one after the other, as
a GPU does for two processes: `device` is that, and stands in no job's tree. They need hardly any CPU, so other load on the
machine disturbs them little.
"""

from __future__ import annotations

import itertools
import os
import select
import socket
import sys
import time
from collections.abc import Callable, Iterator


def main(name: str) -> None:
    """Step until killed."""
    if name == "keras":
        fit()
        return
    if name == "device":
        serve()
        return
    import gpuq_progress

    for _ in _STEPS[name]():
        gpuq_progress.step()


def multiply(size: int, times: int) -> Callable[[], Iterator[None]]:
    """A step is so many products of square matrices."""

    def steps() -> Iterator[None]:
        import numpy as np

        a, b = np.random.default_rng(1).random((2, size, size), "f")
        while True:
            for _ in range(times):
                a @ b
            yield

    return steps


def walk() -> Iterator[None]:
    """A step adds up 64 MiB, the next 64 of 256, so that no cache still holds them."""
    import numpy as np

    rows = np.ones((16, 4 * 2**20), "f")
    for first in itertools.cycle(range(0, 16, 4)):
        rows[first : first + 4].sum()
        yield


def burst() -> Iterator[None]:
    """Fifteen quick steps, then a tenth of a second in which nothing is computed."""
    quick = multiply(400, 1)()
    while True:
        for _ in range(15):
            next(quick)
            yield
        time.sleep(0.1)


def spin(seconds: float) -> None:
    """Compute for so much CPU time of this thread."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def alternate(compute_s: float, wait_s: float) -> Callable[[], Iterator[None]]:
    """A step computes in one thread, then waits."""

    def steps() -> Iterator[None]:
        while True:
            spin(compute_s)
            time.sleep(wait_s)
            yield

    return steps


def load() -> Iterator[None]:
    """A step takes what each of two forked processes has computed, and computes a little itself."""
    readers = []
    for _ in range(2):
        reader, writer = os.pipe()
        if os.fork() == 0:
            while True:
                spin(0.01)
                os.write(writer, b"x")
        readers.append(reader)
    while True:
        for reader in readers:
            os.read(reader, 1)
        spin(0.002)
        yield


def ask(own_ms: int, device_ms: int) -> Callable[[], Iterator[None]]:
    """A step is so long by itself, and then so long on the device, once that is free."""

    def steps() -> Iterator[None]:
        device = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        device.connect(os.environ["STEPPERS_DEVICE"])
        while True:
            time.sleep(own_ms / 1000)
            device.send(bytes([device_ms]))
            device.recv(1)
            yield

    return steps


def serve() -> None:
    """The device: who asks waits until all who asked before were served."""
    waiting = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    waiting.bind(os.environ["STEPPERS_DEVICE"])
    waiting.listen()
    clients: list[socket.socket] = []
    while True:
        for ready in select.select([waiting, *clients], [], [])[0]:
            if ready is waiting:
                clients.append(waiting.accept()[0])
                continue
            try:
                asked = ready.recv(1)
                time.sleep(asked[0] / 1000 if asked else 0)
                ready.send(asked)
            except OSError:
                asked = b""
            if not asked:
                clients.remove(ready)


def fit() -> None:
    """Keras batch by batch. In `fit` threads of TensorFlow's data pipeline wait now and then, up to half of the time for some
    seconds, so that on one core its rate alone differs by a third between minutes, and no long run is the truth."""
    import keras
    import numpy as np

    layers = keras.layers
    model = keras.Sequential(
        [keras.Input((28, 28, 1)), layers.Conv2D(8, 3, activation="relu"), layers.Flatten(), layers.Dense(10)]
    )
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    chance = np.random.default_rng(1)
    x, y = chance.random((32, 28, 28, 1), "f"), chance.integers(0, 10, 32)
    while True:
        model.train_on_batch(x, y)


_STEPS: dict[str, Callable[[], Iterator[None]]] = {
    "light": multiply(200, 4),
    "heavy": multiply(600, 2),
    "memory": walk,
    "bursty": burst,
    "single": alternate(0.005, 0),
    "waits": alternate(0.02, 0.06),
    "loader": load,
    "short": ask(12, 6),
    "long": ask(8, 25),
}

if __name__ == "__main__":
    main(sys.argv[1])
