"""Learn to balance a pole on a cart (CartPole-v1 of Gymnasium) by deep Q-learning (Mnih et al., 2015), in many carts at once.

A step pushes every cart once and then learns from a batch of what was seen before. Playing and learning take turns, so a GPU
waits for the CPU much of the time, as it does for most reinforcement learning. `--real-time` pushes every 20 ms and no faster,
as a learner does whose carts are real, so that the CPU waits too. `--data synthetic` plays by the same equations without
Gymnasium; an epoch is as many steps as `--samples` fill.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if not __package__:  # run as a file: the other modules lie beside it
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from workloads import common
from workloads.poles import TICK_S, GymnasiumPoles, OwnPoles, Poles

if TYPE_CHECKING:
    import keras

ACTIONS = 2
DISCOUNT = 0.99
REMEMBERED = 20_000
# Random pushes: all at first, one in twenty from this step on.
EXPLORED_BY, STILL_EXPLORING = 2_000, 0.05
TARGET_EVERY = 100
LATEST_EPISODES = 100


def main(arguments: list[str] | None = None) -> int:
    """Train, and return the exit code."""
    parser = common.flags(__doc__ or "", batch_size=64, samples=64_000, epochs=20)
    parser.add_argument("--model", choices=["dqn"], default="dqn", help="the network")
    parser.add_argument(
        "--carts", type=common.positive, default=16, metavar="N", help="carts that are played at the same time"
    )
    parser.add_argument(
        "--real-time", action="store_true", help=f"push every {1000 * TICK_S:g} ms and no faster, as real carts need it"
    )
    options = parser.parse_args(arguments)
    poles = choose(options)
    common.start(options)
    agent = Agent(poles, options.batch_size, Ticks(TICK_S if options.real_time else 0))
    arrays = {**agent.arrays(), **poles.arrays()}
    trained = common.Trained([agent.learner, agent.target], arrays, agent.tell)
    return common.train(agent.step, lambda _, random: random, options.samples, options, trained)


def choose(options: argparse.Namespace) -> Poles:
    """Gymnasium's carts where they are installed and wanted."""
    if options.data not in ("auto", "synthetic"):
        raise SystemExit(f"--data {options.data}: CartPole is computed and not read. Say auto or synthetic.")
    if options.data == "auto" and importlib.util.find_spec("gymnasium") is not None:
        common.say(f"data: CartPole-v1 of Gymnasium, {options.carts} carts")
        return GymnasiumPoles(options.carts, options.seed)
    if options.data == "auto":
        common.say("NO GYMNASIUM: `pip install gymnasium` brings it. Going on with the same equations of our own.")
    common.say(f"data: synthetic, {options.carts} carts by CartPole-v1's equations, without Gymnasium")
    return OwnPoles(options.carts, options.seed)


class Memory:
    """The latest transitions, in arrays that a checkpoint keeps as they are."""

    def __init__(self, size: int) -> None:
        self.before = np.zeros((size, 4), np.float32)
        self.action = np.zeros(size, np.int64)
        self.after = np.zeros((size, 4), np.float32)
        self.fell = np.zeros(size, np.float32)
        self.count = np.zeros((), np.int64)

    def add(self, before: np.ndarray, action: np.ndarray, after: np.ndarray, fell: np.ndarray) -> None:
        """Remember these transitions in place of the oldest."""
        place = (int(self.count) + np.arange(len(action))) % len(self.action)
        self.before[place], self.action[place], self.after[place], self.fell[place] = before, action, after, fell
        self.count += len(action)

    def draw(self, size: int, random: np.random.Generator) -> np.ndarray:
        """The places of `size` transitions."""
        return random.integers(0, min(int(self.count), len(self.action)), size)


class Ticks:
    """Holds up whoever waits for the next of these moments; one who comes late goes on at once, and catches up nothing."""

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._next = time.monotonic()

    def wait(self) -> None:
        """Until the next tick."""
        now = time.monotonic()
        time.sleep(max(0.0, self._next - now))
        self._next = max(self._next, now) + self._every_s


class Agent:
    """Plays, remembers and learns."""

    def __init__(self, poles: Poles, batch_size: int, ticks: Ticks) -> None:
        self._poles, self._size, self._ticks = poles, batch_size, ticks
        self._memory = Memory(REMEMBERED)
        self._taken = np.zeros((), np.int64)
        self._values, self.learner, self.target = build()

    def step(self, random: np.random.Generator) -> float:
        """Push every cart, and learn from a batch; the loss on it."""
        self._play(random)
        while self._memory.count < self._size:
            self._play(random)
        if self._taken % TARGET_EVERY == 0:
            self.target.set_weights(self._values.get_weights())
        self._taken += 1
        memory = self._memory
        drawn = memory.draw(self._size, random)
        best = self.target.predict_on_batch(memory.after[drawn]).max(axis=1)
        worth = 1 + DISCOUNT * best * (1 - memory.fell[drawn])
        taken = np.eye(ACTIONS, dtype=np.float32)[memory.action[drawn]]
        return float(self.learner.train_on_batch([memory.before[drawn], taken], worth[:, None]))

    def arrays(self) -> dict[str, np.ndarray]:
        """What a checkpoint keeps beside the networks."""
        memory = self._memory
        kept = {"before": memory.before, "action": memory.action, "after": memory.after, "fell": memory.fell}
        return {**kept, "count": memory.count, "taken": self._taken}

    def tell(self) -> dict[str, object]:
        """For the summary: how long the poles stood."""
        latest = self._poles.lengths[-LATEST_EPISODES:]
        mean = round(float(np.mean(latest)), 1) if latest else None
        return {"episodes": len(self._poles.lengths), "episode_steps_latest": mean}

    def _play(self, random: np.random.Generator) -> None:
        before = self._poles.seen
        explores = max(STILL_EXPLORING, 1 - int(self._taken) / EXPLORED_BY)
        best = self._values.predict_on_batch(before).argmax(axis=1)
        action = np.where(random.random(len(best)) < explores, random.integers(0, ACTIONS, len(best)), best)
        self._ticks.wait()
        after, fell, counts = self._poles.push(action, random)
        self._memory.add(before[counts], action[counts], after[counts], fell[counts])


def build() -> tuple[keras.Model, keras.Model, keras.Model]:
    """(values of both actions, the same with the action taken and its value to train, a copy that follows later)."""
    import keras
    from keras import layers

    seen, taken = keras.Input((4,)), keras.Input((ACTIONS,))
    values = _network()
    value = layers.Dot(axes=1, dtype="float32")([values(seen), taken])
    learner = keras.Model([seen, taken], value)
    learner.compile(keras.optimizers.Adam(1e-3), keras.losses.Huber(), jit_compile=common.jit())
    target = _network()
    target.set_weights(values.get_weights())
    return values, learner, target


def _network() -> keras.Model:
    """100 and 50 units, as the seed's."""
    import keras
    from keras import layers

    return keras.Sequential(
        [
            keras.Input((4,)),
            layers.Dense(100, activation="relu"),
            layers.Dense(50, activation="relu"),
            layers.Dense(ACTIONS, dtype="float32"),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
