"""What a pilot's folder holds: which Slurm job it is, and what it is to do when Slurm starts it."""

from __future__ import annotations

from typing import Any

import msgspec

NOTICE_S = 60
"""Slurm signals a pilot so long before the end of its time: jobs can save their work, and no more start there."""


ALL_POOLS = "all pools"
"""No pool has this name: a problem of it is that of all pools together."""


class Pilot(msgspec.Struct, frozen=True, kw_only=True):
    """`pilot.json`: a Slurm job of a pool that is to become the host `name` of this gpuq, with so many GPUs. With Kubernetes
    it is a pod, whose number is `slurm_job`. None: Slurm has not said the number yet.

    In Unix seconds, `requested_at` is when it was submitted, `invited_at` the time of its newest invitation, `started_at` when it
    was first seen to run without having joined, `joined_at` when it was first seen to report, `idle_since` since when it has had
    no job, and `gone_since` since when Slurm has no such job. Time in which the dispatcher was away or the pilot silent does not
    count as idle: `idle_since` is later by that.
    `ended_by_us`: it was cancelled, since no job needs it. `slurm_says`: why it waited at the last look at Slurm, in Slurm's
    word.
    """

    name: str
    pool: str
    slurm_job: int | None
    gpus: int
    requested_at: float
    invited_at: float
    started_at: float | None = None
    joined_at: float | None = None
    idle_since: float | None = None
    gone_since: float | None = None
    ended_by_us: bool = False
    slurm_says: str | None = None
    where: tuple[str, ...] | None = None
    """Of a pod, the options of kubectl that name its namespace; None: it is a Slurm job."""


class PilotProblem(msgspec.Struct, frozen=True):
    """`NAME.problem`: why a pool got no pilot, last of all, with the fix. `at` in Unix seconds."""

    at: float
    problem: str
    fix: str


class PilotOrder(msgspec.Struct, frozen=True, kw_only=True):
    """`order.json`: as which host it joins, and when it ends. `secret` works once; the file is its owner's only. `version` is
    that of the gpuq that wrote it."""

    main: str
    fingerprint: str
    host: str
    secret: str
    idle_s: float
    gpus: int
    version: str
    lasts_s: float | None = None
    """How long it may run, where the node cannot ask for that; None with Slurm."""
    whole_node: bool = False
    """Whether it has all GPUs of its node, also where Slurm does not count them."""
    settings: dict[str, dict[str, Any]] = {}
    """By group, those of the main host that its worker service is to have too."""
