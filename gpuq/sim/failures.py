"""Losses of hosts for a simulation: given by hand, or drawn."""

from __future__ import annotations

import random
from collections.abc import Sequence

from gpuq.core.state.device import HostId
from gpuq.sim.record import HostLoss
from gpuq.sim.world import World

NONE: Sequence[HostLoss] = ()


def drawn(world: World, *, mean_between_s: float, away_s: float, until_s: float, seed: int) -> tuple[HostLoss, ...]:
    """Losses of each host up to `until_s`: up for exponentially distributed times of mean `mean_between_s`, then down for
    `away_s`.
    """
    found = []
    for host in dict.fromkeys(device.host for device in world.devices):
        chance = random.Random(f"losses of {host}, seed {seed}")  # noqa: S311 - a simulation's random numbers, no secret
        at = chance.expovariate(1 / mean_between_s)
        while at < until_s:
            found.append(HostLoss(host, at, at + away_s))
            at += away_s + chance.expovariate(1 / mean_between_s)
    return tuple(sorted(found, key=lambda loss: (loss.at, loss.host)))


def of(host: str, at: float, away_s: float) -> HostLoss:
    """A loss of `host` at `at`, in seconds of virtual time, for `away_s`."""
    return HostLoss(HostId(host), at, at + away_s)
