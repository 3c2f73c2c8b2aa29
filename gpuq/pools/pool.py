"""A pool of pilots, as `gpuq pool add` makes it, and the file that has all pools of a home.

A pilot is a Slurm job or a pod of Kubernetes that runs the worker service of a host on the GPUs that it was granted.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from gpuq.errors import BadSettings, Conflict, NotFound
from gpuq.home import Home, write_private


class Pod(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The image has gpuq, or `python` is that of a gpuq in the volume. The claim's volume has the home, mounted at `mount`."""

    image: Annotated[str, Meta(min_length=1)]
    claim: Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9.-]*$")]
    mount: Annotated[str, Meta(pattern=r"^/.")]
    python: str = "python3"
    namespace: str | None = None
    """None: that of kubectl's context."""
    context: str | None = None
    cpu: str | None = None
    memory: str | None = None
    """Requests of the container, as in `8` and `32Gi`."""
    resource: str = "nvidia.com/gpu"
    """What the cluster calls a GPU."""
    node_selector: dict[str, str] = {}


class Pool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How pilots are requested, and how many. Times in seconds."""

    name: Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9-]{0,31}$")]
    gpus: Annotated[int, Meta(ge=0, le=64)] = 1
    """A pilot has as many as the waiting jobs need, and at most these. 0: it has no GPU and offers its cores."""
    most: Annotated[int, Meta(ge=1, le=1000)] = 1
    """Pilots at once, waiting and running."""
    time_limit_s: Annotated[float, Meta(ge=300)] = 4 * 3600.0
    """Of each pilot. Slurm ends it then."""
    idle_s: Annotated[float, Meta(ge=1)] = 600.0
    """A pilot without a job for so long ends."""
    most_hours: Annotated[float, Meta(gt=0)] | None = None
    """GPU-hours (without GPUs: hours) that all its pilots together may take; None: no limit."""
    scaling: Literal["eager", "steady", "thrifty"] = "steady"
    """How many pilots are requested: see `gpuq.policies.pilots`."""
    sbatch: tuple[str, ...] = ()
    """Further options of sbatch, as `--partition=gpu`."""
    pod: Pod | None = None
    """Of what each pilot is made on Kubernetes; None: pilots are Slurm jobs."""


def load(home: Home) -> list[Pool]:
    """The pools of this home. Raises BadSettings."""
    try:
        return msgspec.json.decode(home.pools_file.read_bytes(), type=list[Pool])
    except FileNotFoundError:
        return []
    except (OSError, msgspec.MsgspecError) as error:
        raise BadSettings(
            f"{home.pools_file} cannot be read: {error}.",
            fix="Remove it, and add the pools again with `gpuq pool add`.",
        ) from error


def add(home: Home, pool: Pool) -> None:
    """Add a pool. Raises Conflict for a name that is taken."""
    pools = load(home)
    if any(one.name == pool.name for one in pools):
        raise Conflict(
            f"There is a pool {pool.name} already.",
            fix=f"Give another name with --name, or remove that one: `gpuq pool remove {pool.name}`.",
        )
    _save(home, [*pools, pool])


def remove(home: Home, name: str) -> None:
    """Remove a pool. Raises NotFound."""
    pools = load(home)
    if all(one.name != name for one in pools):
        raise NotFound(f"There is no pool {name}.", fix="`gpuq pool list` names them.")
    _save(home, [one for one in pools if one.name != name])


def _save(home: Home, pools: list[Pool]) -> None:
    write_private(home.pools_file, msgspec.json.encode(pools))
