"""The outcome of an attempt that ended, computed from its measurement. Nothing here is predicted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from gpuq.core.measuring.measurement import Measurement
from gpuq.core.measuring.slowdown import Basis, Rate, rates, slowdown, slowdowns
from gpuq.core.state.attempt import MemoryCause
from gpuq.core.state.device import Device
from gpuq.core.state.job import JobId, KindId
from gpuq.messages.outcome import AttemptOutcome, PairSlowdown

# What an outcome takes from the measurement as it is. `partners` are attempts there and jobs here.
_MEASURED = tuple(
    field.name
    for field in fields(Measurement)
    if field.name in AttemptOutcome.__struct_fields__ and field.name != "partners"
)


def outcome_of(
    measurement: Measurement,
    device: Device | None,
    kinds: Mapping[JobId, KindId],
    kind_alone: Rate | None,
    memory_cause: MemoryCause | None = None,
) -> AttemptOutcome:
    """The outcome of one attempt. `device` is its first device, `kinds` has the kinds of its partners, and `kind_alone` is the
    usual rate of its kind without a partner on that type of device.
    """
    without_foreign_load, every = rates(measurement), rates(measurement, foreign_load=True)
    disturbed = every != without_foreign_load
    costs = list(slowdowns(measurement, kind_alone))
    best = costs[0] if costs else None
    partners = sorted({partner.job for partner in measurement.partners})
    pairs = []
    # What several partners cost together cannot be divided among them, so each counts by the time that it was there by itself.
    for partner in sorted(set(measurement.partners)):
        cost = slowdown(measurement, kind_alone, [partner])
        if cost is not None and cost.basis is not Basis.FOREIGN and partner.job in kinds:
            kind = kinds[partner.job]
            pairs.append(PairSlowdown(kind=kind, value=cost.value, low=cost.low, high=cost.high, basis=cost.basis))
    return AttemptOutcome(
        **{name: getattr(measurement, name) for name in _MEASURED},
        alone_rate=without_foreign_load.alone_rate,
        shared_rate=without_foreign_load.shared_rate,
        disturbed_rate=(every.alone_rate or every.shared_rate) if disturbed else None,
        slowdown=best.value if best else None,
        slowdown_low=best.low if best else None,
        slowdown_high=best.high if best else None,
        slowdown_basis=best.basis if best else None,
        slowdown_otherwise=tuple(costs[1:]),
        partners=tuple(partners),
        partner_kinds=tuple(kinds[partner] for partner in partners if partner in kinds),
        slowdowns=tuple(pairs),
        device_type=device.type if device else None,
        sharing=device.sharing if device and partners else None,
        memory_cause=memory_cause,
    )
