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


def names() -> list[str]:
    """The names of all installed policies, sorted."""
    return sorted(_entry_points())


def spec(name: str) -> PolicySpec:
    """The spec of this policy. Raises BadInput for a name that is not installed and for an entry point that cannot be loaded."""
    point = _entry_points().get(name)
    if point is None:
        raise BadInput(f"there is no policy `{name}`.", fix="`gpuq policy list` names them.")
    try:
        loaded = point.load()
    except Exception as error:
        raise BadInput(
            f"the policy `{name}` ({point.value}) cannot be loaded: {type(error).__name__}: {error}.",
            fix="Install what it needs, or choose another: `gpuq policy list`.",
        ) from error
    if not isinstance(loaded, PolicySpec):
        raise BadInput(f"the entry point `{name}` ({point.value}) is no PolicySpec.", fix="docs/policies.md shows one.")
    return loaded


def source(name: str) -> str:
    """The object and the distribution that provide a policy, as in `gpuq.policies.lists.packed:SPEC of gpuq-daemon 0.1.0`."""
    point = _entry_points()[name]
    return point.value if point.dist is None else f"{point.value} of {point.dist.name} {point.dist.version}"


def make(scheduling: Scheduling) -> Policy:
    """The policy that the settings name. Raises BadInput."""
    return spec(scheduling.policy).make(scheduling)


def _entry_points() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}
