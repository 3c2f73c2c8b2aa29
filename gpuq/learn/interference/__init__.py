"""What sharing costs a pair of kinds: the slowdown of each beside the other, expected and at most.

Measured pairs, and what is known of each kind alone, give expected slowdowns with calibrated upper bounds, also for pairs
that were never measured. Types of device and ways of sharing are never mixed. From the bottom up: `law` (what utilisations
alone imply), `profile` (what is known of a kind), `learned` (the fitted part of a model, served with numpy), `fit` (the only
module that trains), `pair` (one pair's cost as the core asks for it).
"""

from gpuq.learn.interference.learned import LAW, Interference
from gpuq.learn.interference.pair import PairCosts
from gpuq.learn.interference.profile import Profile

__all__ = ["LAW", "Interference", "PairCosts", "Profile"]
