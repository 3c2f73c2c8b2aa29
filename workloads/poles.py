"""Poles to balance on carts, many at a time: Gymnasium's CartPole-v1, or the same equations here where it is not installed.

A step takes one action per pole (0 pushes the cart left, 1 right) and returns what is observed afterwards and which poles
fell. The equations are those of Barto, Sutton and Anderson (1983) as corrected by Florian (2007), with CartPole-v1's constants.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

GRAVITY, CART_KG, POLE_KG, HALF_POLE_M = 9.8, 1.0, 0.1, 0.5
FORCE_N, TICK_S = 10.0, 0.02
FARTHEST_M, STEEPEST_RADIANS, LONGEST_STEPS = 2.4, 12 * np.pi / 180, 500
START = 0.05


class Poles(Protocol):
    """Poles whose next episode starts by itself once they fell or stood for `LONGEST_STEPS` steps."""

    seen: np.ndarray
    """(N, 4): place and speed of each cart, angle and speed of each pole."""
    lengths: list[int]
    """The steps that each ended episode lasted."""

    def push(self, actions: np.ndarray, random: np.random.Generator, /) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(observed right afterwards, fell, counts): a step that only resets a pole does not count."""

    def arrays(self) -> dict[str, np.ndarray]:
        """The state that a checkpoint can keep."""


class OwnPoles:
    """The equations, in NumPy."""

    def __init__(self, number: int, seed: int) -> None:
        self._state = np.random.default_rng(seed).uniform(-START, START, (number, 4))
        self._steps = np.zeros(number, np.int64)
        self.lengths: list[int] = []

    @property
    def seen(self) -> np.ndarray:
        return self._state.astype(np.float32)

    def push(self, actions: np.ndarray, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        self._state[:] = moved(self._state, actions)
        self._steps += 1
        fell = (np.abs(self._state[:, 0]) > FARTHEST_M) | (np.abs(self._state[:, 2]) > STEEPEST_RADIANS)
        ended = fell | (self._steps >= LONGEST_STEPS)
        after = self.seen
        self.lengths += self._steps[ended].tolist()
        self._state[ended] = random.uniform(-START, START, (int(ended.sum()), 4))
        self._steps[ended] = 0
        return after, fell, np.ones(len(fell), bool)

    def arrays(self) -> dict[str, np.ndarray]:
        return {"poles": self._state, "pole-steps": self._steps}


class GymnasiumPoles:
    """Gymnasium's own. Its episodes start over when a training is resumed."""

    def __init__(self, number: int, seed: int) -> None:
        import gymnasium

        made: Any = gymnasium.make_vec("CartPole-v1", number, vectorization_mode="vector_entry_point")
        self._poles = made
        self.seen: np.ndarray = made.reset(seed=seed)[0]
        self._steps = np.zeros(number, np.int64)
        self._ended = np.zeros(number, bool)
        self.lengths: list[int] = []

    def push(self, actions: np.ndarray, _: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        # An environment that ended last time ignores the action and is reset.
        counts = ~self._ended
        self.seen, _reward, fell, cut, _info = self._poles.step(actions)
        self._steps[counts] += 1
        self._ended = fell | cut
        self.lengths += self._steps[self._ended].tolist()
        self._steps[self._ended] = 0
        return self.seen, fell, counts

    def arrays(self) -> dict[str, np.ndarray]:
        return {}


def moved(state: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """The state (N, 4) one tick later, by Euler's method."""
    _, speed, angle, turning = state.T
    force = np.where(actions == 1, FORCE_N, -FORCE_N)
    mass, moment = CART_KG + POLE_KG, POLE_KG * HALF_POLE_M
    sine, cosine = np.sin(angle), np.cos(angle)
    pushed = (force + moment * turning**2 * sine) / mass
    turned = (GRAVITY * sine - cosine * pushed) / (HALF_POLE_M * (4 / 3 - POLE_KG * cosine**2 / mass))
    faster = pushed - moment * turned * cosine / mass
    change = np.stack([speed, faster, turning, turned], axis=1)
    return state + TICK_S * change
