"""What really happened to an attempt, in the words of `gpuq show`: `actual`, the answer beside the forecast.

The slowdown is measured by blinks where there were two, else within the attempt where it had time alone and time with a
partner, else against its kind's alone rate on the same type of device, else it is unknown. What the others of these say is
in `slowdown_otherwise`. Rates and slowdowns of windows in which foreign load took too much of the job's time are told apart:
`disturbed_rate`, and the basis "beside foreign load". Nothing here is predicted. `sharing` is the way in which the device is
shared when the attempt ends, null for one that shared with nobody.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpuq.core.measuring.measurement import Measurement
from gpuq.core.measuring.slowdown import Basis, Rate, Slowdown, rates, slowdown, slowdowns
from gpuq.core.state.attempt import MemoryCause
from gpuq.core.state.device import Device
from gpuq.core.state.job import JobId, KindId


def actual(
    measurement: Measurement,
    device: Device | None,
    kinds: Mapping[JobId, KindId],
    kind_alone: Rate | None,
    memory_cause: MemoryCause | None = None,
) -> dict[str, Any]:
    """The `actual` of one attempt, in JSON types; null for what was not measured."""
    measured, every = rates(measurement), rates(measurement, foreign_load=True)
    costs = list(slowdowns(measurement, kind_alone))
    cost = costs[0] if costs else None
    partners = sorted({partner.job for partner in measurement.partners})
    return {
        "peak_utilization_pct": measurement.peak_utilization_pct,
        "peak_memory_bytes": measurement.peak_memory_bytes,
        "steps": measurement.steps,
        "not_counted": measurement.not_counted,
        "alone_rate": measured.alone_rate,
        "shared_rate": measured.shared_rate,
        "disturbed_rate": (every.alone_rate or every.shared_rate) if every != measured else None,
        "slowdown": cost.value if cost else None,
        "slowdown_low": cost.low if cost else None,
        "slowdown_high": cost.high if cost else None,
        "slowdown_basis": cost.basis if cost else None,
        "slowdown_otherwise": [_figures(other) for other in costs[1:]],
        "blink": measurement.blink,
        "partners": partners,
        "partner_kinds": [kinds[partner] for partner in partners if partner in kinds],
        "slowdowns": list(_slowdowns(measurement, kinds, kind_alone)),
        "device_type": device.type if device else None,
        "sharing": device.sharing if device and partners else None,
        "energy_joules": measurement.energy_joules,
        "memory_cause": memory_cause,
        "idle_joules": measurement.idle_joules,
        "peak_memory_is_bound": measurement.peak_memory_is_bound,
        "foreign_load": measurement.foreign_load,
        "held_back": measurement.held_back,
        "utilization_is_bound": measurement.utilization_is_bound,
        "step_processes": measurement.step_processes,
    }


def _slowdowns(
    measurement: Measurement, kinds: Mapping[JobId, KindId], kind_alone: Rate | None
) -> Iterator[dict[str, Any]]:
    """One per partner that was there by itself for a while, without considerable foreign load.

    What several partners did together is not known of any one of them.
    """
    for partner in sorted(set(measurement.partners)):
        cost = slowdown(measurement, kind_alone, [partner])
        if cost is not None and cost.basis is not Basis.FOREIGN and partner.job in kinds:
            yield {"kind": kinds[partner.job], **_figures(cost)}


def _figures(cost: Slowdown) -> dict[str, Any]:
    return {"value": cost.value, "low": cost.low, "high": cost.high, "basis": cost.basis}
