"""What sharing costs a pair of kinds: the slowdown of each beside the other, expected and at most.

Arrives: measured pairs of kinds, and what is known of each kind alone. Leaves: expected slowdowns with calibrated upper
bounds, also for pairs nobody measured. Per type of device and way of sharing; neither is ever mixed with another. From
the bottom up: `law` (what utilisations alone say), `profile` (what is known of a kind), `learned` (the fitted part of a
model, served with numpy), `fit` (the only module that trains), `pair` (one pair's cost as the core asks for it).
"""

from gpuq.learn.interference.learned import LAW, Interference
from gpuq.learn.interference.pair import PairCosts, combined, pair_cost
from gpuq.learn.interference.profile import Profile

__all__ = ["LAW", "Interference", "PairCosts", "Profile", "combined", "pair_cost"]
