"""Which policies there are: those of gpuq and those that a site installed, all through the entry points `gpuq.policies`.

Arrives: a name. Leaves: its spec, or the policy made from the settings. Raises `BadInput` for a name that nobody offers, and
for an entry point that cannot be loaded.
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
    """All names, sorted."""
    return sorted(_found())


def spec(name: str) -> PolicySpec:
    """What is offered under this name. Raises BadInput."""
    found = _found().get(name)
    if found is None:
        raise BadInput(f"there is no policy `{name}`.", fix="`gpuq policy list` names them.")
    try:
        offered = found.load()
    except Exception as error:
        raise BadInput(
            f"the policy `{name}` ({found.value}) cannot be loaded: {type(error).__name__}: {error}.",
            fix="Install what it needs, or choose another: `gpuq policy list`.",
        ) from error
    if not isinstance(offered, PolicySpec):
        raise BadInput(f"the entry point `{name}` ({found.value}) is no PolicySpec.", fix="docs/policies.md shows one.")
    return offered


def source(name: str) -> str:
    """Where the policy of this name comes from, as in `gpuq.policies.lists.packed:SPEC of gpuq-daemon 0.1.0`."""
    point = _found()[name]
    return point.value if point.dist is None else f"{point.value} of {point.dist.name} {point.dist.version}"


def make(scheduling: Scheduling) -> Policy:
    """The policy that the settings name. Raises BadInput."""
    return spec(scheduling.policy).make(scheduling)


def _found() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}
