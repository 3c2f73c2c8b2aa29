"""When the first steps of a training have shown how much memory the later ones need.

A round is over when each optimizer has made a step since the last one: one step with one optimizer, six of a GAN whose critic
makes five for each of the generator's. The first round also makes the model and what the optimizers keep. Batches of sentences,
graphs or images may differ in size, so rounds are made until the largest has come three times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from operator import sub

# The largest round after the first is to come so often, to within a share that is less than half of the bound's own margin.
_TIMES, _WITHIN = 3, 0.05
_MOST_ROUNDS = 16
# What is kept of each round: the loss of a step is 512 bytes.
_KEPT_BYTES = 4096
# Of one optimizer within a round. The critic of a Wasserstein GAN makes 100 for one of the generator's at first.
_MOST_STEPS = 256


class Rounds:
    """The rounds of a training so far; its length is how many are over."""

    def __init__(self) -> None:
        self._steps: Counter[Hashable] = Counter()
        self._before: tuple[int, ...] = ()
        self._sizes: list[tuple[int, ...]] = []
        self._used: list[int] = []

    def __len__(self) -> int:
        return len(self._sizes)

    def stepped(
        self, optimizer: Hashable, awaited: Collection[Hashable], totals: tuple[int, ...], used: int = 0
    ) -> bool:
        """Note a step. Returns whether enough was seen; raises LookupError, saying why, where that is not to be expected.

        A round is over when all that are `awaited` have stepped. `totals` count bytes since the start, in ways of which each may
        show that a round is larger than others; `used` are those in use.
        """
        self._steps[optimizer] += 1
        if not self._steps.keys() >= set(awaited):
            if self._steps[optimizer] < _MOST_STEPS:
                return False
            raise LookupError(f"one of its optimizers made no step while another made {_MOST_STEPS}")
        self._steps.clear()
        self._sizes.append(tuple(map(sub, totals, self._before)))
        self._before = totals
        self._used.append(used)
        later = self._sizes[1:]
        if later and all(_came_again([sizes[way] for sizes in later]) for way in range(len(totals))):
            if min(map(sub, self._used[1:], self._used)) > _KEPT_BYTES:
                raise LookupError("it keeps more of a GPU after each step, so later ones need more than the first ones")
            return True
        if len(self) < _MOST_ROUNDS:
            return False
        raise LookupError("the size of its batches changes, so a later one may need more than the first ones")


def _came_again(sizes: Sequence[int]) -> bool:
    return sum(size >= (1 - _WITHIN) * max(sizes) for size in sizes) >= _TIMES
