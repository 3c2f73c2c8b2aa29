"""What each policy says of itself, and whether it can be had here: what `gpuq policy` shows.

Arrives: the settings. Leaves: one `CatalogueEntry` per entry point, sound or not. To know whether a policy can be had, it is made; so
this runs in a process of its own (`python -m gpuq.policies`), where what a policy imports or breaks stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from gpuq.errors import BadInput
from gpuq.policies import registry
from gpuq.policies.spec import PolicySpec
from gpuq.settings import Scheduling, setting_fields

_EVERY_POLICYS = {"policy", "policy_time_limit_s"}


@dataclass(frozen=True)
class CatalogueEntry:
    """One policy. `summary` and the claims are None where it cannot even be loaded; `problem` says why it cannot be had.

    `settings`: those under [scheduling] that it looks at when it is made, with their values.
    """

    name: str
    source: str
    summary: str | None = None
    work_conserving: bool | None = None
    starvation_free: bool | None = None
    extra: str | None = None
    problem: str | None = None
    settings: dict[str, Any] | None = None


def catalogue(scheduling: Scheduling) -> list[CatalogueEntry]:
    """All policies by name. Never raises for one that is broken."""
    return [_offer(name, scheduling) for name in registry.names()]


def _offer(name: str, scheduling: Scheduling) -> CatalogueEntry:
    source = registry.source(name)
    try:
        spec = registry.spec(name)
    except BadInput as error:
        return CatalogueEntry(name, source, problem=error.message)
    noted = _Noted(scheduling)
    return CatalogueEntry(
        name,
        source,
        spec.summary,
        spec.work_conserving,
        spec.starvation_free,
        spec.extra,
        _problem(spec, cast(Scheduling, noted)),
        {field: getattr(scheduling, field) for field in sorted(noted.read)},
    )


def _problem(spec: PolicySpec, scheduling: Scheduling) -> str | None:
    try:
        spec.make(scheduling)
    except BadInput as error:
        return f"{error.message} {error.fix}"
    except (Exception, SystemExit) as error:  # noqa: BLE001 - one that cannot be made must not hide the others
        return f"it cannot be made: {type(error).__name__}: {error}"
    return None


class _Noted:
    """The settings, and which of them were asked for."""

    def __init__(self, scheduling: Scheduling) -> None:
        self._scheduling = scheduling
        self._known = set(setting_fields("scheduling")) - _EVERY_POLICYS
        self.read: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        if name in self._known:
            self.read.add(name)
        return getattr(self._scheduling, name)
