"""The parts of a forecast's evidence as users read it, from the runs that it rests on."""

from __future__ import annotations

from collections.abc import Sequence

from gpuq.learn.features.setting_effects import SettingChange
from gpuq.learn.history.history import MeasuredRun, measured

_MOST_NAMED = 3


def differing(changed: Sequence[SettingChange]) -> str:
    """`with another hidden, layers`; `of an earlier script` for equal settings."""
    if not changed:
        return "of an earlier script"
    names = ", ".join(change.name for change in changed[:_MOST_NAMED])
    return f"with another {names}{', …' if len(changed) > _MOST_NAMED else ''}"


def count(used: Sequence[MeasuredRun]) -> str:
    """`1 run`, `5 runs`."""
    return f"{len(used)} {'run' if len(used) == 1 else 'runs'}"


def foreign_load(used: Sequence[MeasuredRun]) -> str:
    """A remark if these runs give only an upper limit of utilisation, since other processes kept the device busy."""
    only_bound = not measured(used, "peak_utilization_pct") and measured(used, "utilization_at_most")
    return "; utilisation at most, it only ran beside foreign load" if only_bound else ""
