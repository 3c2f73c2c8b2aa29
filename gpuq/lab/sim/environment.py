"""The planning of a batch as a Gymnasium environment, so that any library of reinforcement learning can train on it.

An episode is one batch, drawn from those given. An action chooses one of the options to start the current job, or puts the job
aside; `info["action_mask"]` says which are allowed. An action that names no option takes the first.

The reward of a step is the change in the plan's worth, if it were completed greedily, in parts of the greedy plan's worth. So
the return of an episode is the plan's worth / the greedy plan's worth - 1, and playing greedily earns nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from gpuq.lab.planners.game import BOUND, CHOICES, SIZE, Game, Observation
from gpuq.policies.planners.batch import Batch

Info = dict[str, Any]


class PlanningEnvironment(gymnasium.Env[Observation, int]):  # type: ignore[misc]
    """Each reset draws one of `seeds` and plays the batch that `make` returns for it. Batches are cached."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - as Gymnasium declares it

    def __init__(self, make: Callable[[int], Batch], seeds: Sequence[int]) -> None:
        self.observation_space = spaces.Box(-BOUND, BOUND, (SIZE,), np.float32)
        self.action_space = spaces.Discrete(CHOICES + 1)
        self._make, self._seeds = make, tuple(seeds)
        self._batches: dict[int, Batch] = {}

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Observation, Info]:
        """Draw a batch that has something to decide."""
        super().reset(seed=seed, options=options)
        while True:
            drawn = int(self.np_random.choice(self._seeds))
            if drawn not in self._batches:
                self._batches[drawn] = self._make(drawn)
            batch = self._batches[drawn]
            self._game = Game(batch)
            if not self._game.over:
                break
        self._greedy = self._worth = float(batch.value[self._game.plan].sum())
        self._batch_now = batch
        return self._game.observe(), self._info()

    def step(self, action: int) -> tuple[Observation, float, bool, bool, Info]:
        """Play the action. The episode ends when nothing fits any more, and is never truncated."""
        self._game.act(int(action))
        before, self._worth = self._worth, float(self._batch_now.value[self._game.plan].sum())
        return self._game.observe(), (self._worth - before) / self._greedy, self._game.over, False, self._info()

    def _info(self) -> Info:
        return {"action_mask": self._game.allowed(), "worth": self._worth, "greedy": self._greedy}
