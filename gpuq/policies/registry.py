"""Finds policies by name: those of gpuq and those that a site installed, through the entry point group `gpuq.policies`.

An entry point names a `PolicySpec` object. The name of the object does not matter.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

from gpuq.core.scheduling.policy import Policy
from gpuq.errors import BadInput
from gpuq.policies.spec import PolicySpec
from gpuq.settings import Scheduling

GROUP = "gpuq.policies"
DEFAULT = "packed"


def installed() -> dict[str, EntryPoint]:
    """The entry points of all installed policies by name, sorted. Takes some 20 ms, since it reads what is installed."""
    return {point.name: point for point in sorted(entry_points(group=GROUP), key=lambda point: point.name)}


def names() -> list[str]:
    """The names of all installed policies, sorted."""
    return list(installed())


def spec(name: str) -> PolicySpec:
    """The spec of this policy. Raises BadInput for a name that is not installed and for an entry point that cannot be loaded."""
    point = installed().get(name)
    if point is None:
        raise BadInput(f"there is no policy `{name}`.", fix="`gpuq policy list` names them.")
    return load(point)


def load(point: EntryPoint) -> PolicySpec:
    """The spec that an entry point names. Raises BadInput where it cannot be loaded."""
    try:
        loaded = point.load()
    except Exception as error:
        raise BadInput(
            f"the policy `{point.name}` ({point.value}) cannot be loaded: {type(error).__name__}: {error}.",
            fix="Install what it needs, or choose another: `gpuq policy list`.",
        ) from error
    if not isinstance(loaded, PolicySpec):
        raise BadInput(
            f"the entry point `{point.name}` ({point.value}) is no PolicySpec.", fix="docs/policies.md shows one."
        )
    return loaded


def source(point: EntryPoint) -> str:
    """The object and the distribution that provide a policy, as in `gpuq.policies.lists.packed:SPEC of gpuq-daemon 0.1.0`."""
    return point.value if point.dist is None else f"{point.value} of {point.dist.name} {point.dist.version}"


def make(scheduling: Scheduling) -> Policy:
    """The policy that the settings name. Raises BadInput."""
    return spec(scheduling.policy).make(scheduling)
