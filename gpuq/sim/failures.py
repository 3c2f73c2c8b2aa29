"""Hosts that go and come back: named by hand, or drawn."""

from __future__ import annotations

import random
from collections.abc import Sequence

from gpuq.core.state.device import HostId
from gpuq.sim.record import HostLoss
from gpuq.sim.world import World

NONE: Sequence[HostLoss] = ()


def drawn(world: World, *, mean_between_s: float, away_s: float, until_s: float, seed: int) -> tuple[HostLoss, ...]:
    """Losses of each host up to `until_s`: exponential times of `mean_between_s` up, each followed by `away_s` down."""
    found = []
    for host in dict.fromkeys(device.host for device in world.devices):
        chance = random.Random(f"losses of {host}, seed {seed}")  # noqa: S311 - chance, no secret
        at = chance.expovariate(1 / mean_between_s)
        while at < until_s:
            found.append(HostLoss(host, at, at + away_s))
            at += away_s + chance.expovariate(1 / mean_between_s)
    return tuple(sorted(found, key=lambda loss: (loss.at, loss.host)))


def of(host: str, at: float, away_s: float) -> HostLoss:
    """One loss, named by hand."""
    return HostLoss(HostId(host), at, at + away_s)
