"""The world as gpuq's own record measured it: each kind is a workload of its own, on the site's devices.

What was never measured is not taken to be free: a pair without a measurement costs what the contention model says of the two
utilisations, and a kind of unknown utilisation is assumed to use all of a device.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import product
from statistics import median

from gpuq.core.state.attempt import MemoryCause
from gpuq.core.state.device import Device
from gpuq.learn.history.outcome import Outcome
from gpuq.learn.interference.law import slowdown as law
from gpuq.sim.world import Workload, World

# The utilisation of a kind of which none was measured.
_UNKNOWN_PCT = 100.0


def measured_world(
    kinds: Iterable[str], outcomes: Sequence[Outcome], devices: Sequence[Device], restart_s: float
) -> World:
    """The world of these kinds. What was not measured follows the rules above, and the notes count it."""
    names = sorted(set(kinds))
    runs: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        runs[outcome.kind].append(outcome)
    workloads = {kind: _workload(kind, runs[kind]) for kind in names}
    slowdowns, never_fit = _slowdowns(outcomes)
    pairs: dict[tuple[str, str], float] = {}
    for pair in product(names, names):
        one, other = (workloads[kind].utilization_pct for kind in pair)
        pairs[pair] = math.inf if pair in never_fit else slowdowns.get(pair) or law(one, other) or 1.0
    known = sum(pair in slowdowns or pair in never_fit for pair in pairs)
    unknown = sum(_peak(runs[kind]) is None for kind in names)
    types = sorted({device.type for device in devices})
    notes = [
        f"{len(names)} kinds as gpuq measured them; {known} of {len(pairs)} directed pairs were measured, the others cost what "
        "the contention law says of the two utilisations"
    ]
    if unknown:
        notes.append(f"the utilisation of {unknown} kinds was never measured: they are taken to want all of a device")
    if len(types) > 1:
        notes.append(f"durations are the same on all types of device here: {', '.join(types)}")
    return World(
        "as measured",
        tuple(devices),
        workloads,
        {kind: kind for kind in names},
        pairs,
        restart_s=restart_s,
        notes=tuple(notes),
    )


def _workload(kind: str, runs: Sequence[Outcome]) -> Workload:
    memory = _middle([run.peak_memory_bytes for run in _alone(runs)])
    features = runs[-1].features if runs else {}
    model, batch = features.get("model"), features.get("batch_size")
    peak = _peak(runs)
    return Workload(
        kind,
        model if isinstance(model, str) else kind,
        float(batch) if isinstance(batch, int | float) else None,
        _UNKNOWN_PCT if peak is None else peak,
        None if memory is None else round(memory),
    )


def _slowdowns(outcomes: Iterable[Outcome]) -> tuple[dict[tuple[str, str], float], set[tuple[str, str]]]:
    """(the median slowdown of each directed pair of kinds; pairs in which one ran out of memory)."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    never_fit = set()
    for outcome in outcomes:
        for partner, value, _, _ in outcome.slowdowns:
            found[outcome.kind, partner].append(value)
        if outcome.outgrew_device and outcome.memory_cause != MemoryCause.FOREIGN:
            for partner in outcome.partner_kinds:
                never_fit |= {(outcome.kind, partner), (partner, outcome.kind)}
    return {pair: max(1.0, median(values)) for pair, values in found.items()}, never_fit


def _alone(runs: Sequence[Outcome]) -> Sequence[Outcome]:
    """The runs without a partner, since a partner lowers the peak; all runs where there are none."""
    return [run for run in runs if not run.shared and run.whole] or runs


def _peak(runs: Sequence[Outcome]) -> float | None:
    return _middle([run.peak_utilization_pct for run in _alone(runs)])


def _middle(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(median(known)) if known else None
