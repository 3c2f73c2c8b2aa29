"""What a pilot's folder holds: which Slurm job it is, and what it is to do when Slurm starts it."""

from __future__ import annotations

import msgspec


class Pilot(msgspec.Struct, frozen=True):
    """`pilot.json`: a Slurm job that is to become a host of this gpuq.

    In Unix seconds, `invited_at` is the time of its newest invitation, `joined_at` that when it was first seen to report.
    """

    name: str
    pool: str
    slurm_job: int
    invited_at: float
    joined_at: float | None = None


class PilotOrder(msgspec.Struct, frozen=True, kw_only=True):
    """`order.json`: as which host it joins, and when it ends. `secret` works once; the file is its owner's only."""

    main: str
    fingerprint: str
    host: str
    secret: str
    idle_s: float
    gpus: int
