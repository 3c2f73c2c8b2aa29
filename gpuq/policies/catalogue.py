"""Lists every installed policy with its claims, its settings and the reason why it cannot be used here, for `gpuq policy`.

The only way to know whether a policy can be made is to make it. That runs third-party code, so the catalogue is built in a
process of its own (`python -m gpuq.policies`), whose imports and crashes do not reach the daemon.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import Any, cast

from gpuq.errors import BadInput
from gpuq.policies import registry
from gpuq.settings import Scheduling, setting_fields

# Settings that apply to every policy, and so say nothing about one of them.
_COMMON_SETTINGS = {"policy", "policy_time_limit_s"}


@dataclass(frozen=True)
class CatalogueEntry:
    """One installed policy.

    `summary` and the claims are None where the entry point cannot be loaded. `problem` is the reason why the policy cannot be
    used, None if it can. `settings` are those under [scheduling] that `make` read, with their values.
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
    """All installed policies, sorted by name. A broken policy gets an entry with its problem and raises nothing."""
    return [_entry(point, scheduling) for point in registry.installed().values()]


def _entry(point: EntryPoint, scheduling: Scheduling) -> CatalogueEntry:
    name, source = point.name, registry.source(point)
    try:
        spec = registry.load(point)
    except BadInput as error:
        return CatalogueEntry(name, source, problem=error.message)
    recorder, problem = _ReadRecorder(scheduling), None
    try:
        spec.make(cast(Scheduling, recorder))
    except BadInput as error:
        problem = f"{error.message} {error.fix}"
    except (Exception, SystemExit) as error:  # noqa: BLE001 - one broken policy must not hide the others
        problem = f"it cannot be made: {type(error).__name__}: {error}"
    settings = {setting: getattr(scheduling, setting) for setting in sorted(recorder.read)}
    return CatalogueEntry(
        name, source, spec.summary, spec.work_conserving, spec.starvation_free, spec.extra, problem, settings
    )


class _ReadRecorder:
    """Stands in for `Scheduling` and records which settings are read."""

    def __init__(self, scheduling: Scheduling) -> None:
        self._scheduling = scheduling
        self._recorded = set(setting_fields("scheduling")) - _COMMON_SETTINGS
        self.read: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        if name in self._recorded:
            self.read.add(name)
        return getattr(self._scheduling, name)
