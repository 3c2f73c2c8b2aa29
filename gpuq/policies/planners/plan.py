"""A plan: options of a batch that fit together, and the proposals that they come down to; greedy plans; the frame of planners.

A planner is a function from a batch to a plan. Its policy proposes the plan first, the most valuable option first, and then
whatever packing would still place, so that nothing idles that the plan had no view of, and every refusal has its reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.scheduling.policy import Eviction, Policy, Proposal
from gpuq.core.state.device import Device, DeviceId
from gpuq.errors import BadInput
from gpuq.policies.lists import order
from gpuq.policies.lists.list_scheduler import list_scheduler
from gpuq.policies.planners.batch import Batch, Indices, Numbers
from gpuq.policies.planners.batch_builder import build_batch, foremost
from gpuq.policies.planners.pairing import PairBook
from gpuq.settings import Scheduling

# Everything here is repeatable: the same batch gives the same plan.
SEED = 0


@dataclass(frozen=True)
class Plan:
    """`chosen` indexes the batch's options. `bound` is what no plan can exceed, where the planner knows it; else None."""

    batch: Batch
    chosen: Indices
    bound: float | None = None

    @property
    def value(self) -> float:
        """Weighted completions per hour."""
        return float(self.batch.value[self.chosen].sum())

    def proposals(self) -> Iterator[Proposal]:
        """Who starts now, the most valuable first. Gangs choose their devices first, whatever they are worth: the others can
        do with any device of their seat."""
        batch, taken = self.batch, set[DeviceId]()
        snapshots: dict[int, tuple[Device, ...]] = {}
        for option in sorted(self.chosen, key=lambda option: -batch.devices[option]):
            snapshots[int(option)] = devices = _devices(batch, int(option), taken)
            taken.update(device.id for device in devices)
        for option in sorted(snapshots, key=lambda option: -batch.value[option]):
            yield Proposal(batch.jobs[batch.first[option]], snapshots[option])


Solve = Callable[[Batch], Plan]


def planner(solve: Solve, scheduling: Scheduling) -> Policy:
    """The policy of a planner: the plan of each pass over the foremost waiting jobs, then packing for the rest."""
    book, rest, most = PairBook(), dynamic(scheduling), scheduling.plan_jobs

    def policy(context: SchedulingContext) -> Iterator[Proposal | Eviction]:
        batch = build_batch(context, foremost(context.waiting, most), context.snapshots, book)
        if batch.size:
            # On a single device the option worth most is the best plan, whoever plans.
            yield from (solve if batch.open_devices > 1 else greedy)(batch).proposals()
        yield from rest(context)

    return policy


def dynamic(scheduling: Scheduling) -> Policy:
    """Packing as the default does it, whatever order and backfill the settings name, and without stopping anybody: a planner
    that did not know for whom a device was freed could give it back to who was stopped."""
    return list_scheduler(order.priority_first(order.shortest(scheduling.overtaking), scheduling.ageing_s))


def greedy(batch: Batch) -> Plan:
    """The option worth most per device, then the next that still fits. Every planner starts from it and is no worse."""
    return Plan(batch, complete(batch, np.empty(0, dtype=np.intp)))


def complete(batch: Batch, chosen: Indices, score: Numbers | None = None, among: Indices | None = None) -> Indices:
    """These options and what still fits beside them, the best `score` (m) first; by default what they are worth per device.
    `among` limits what is looked at."""
    wanted = batch.density if score is None else score
    left = batch.left(chosen)
    alive = np.arange(batch.size) if among is None else among
    found = list(chosen)
    while (alive := alive[batch.fit(alive, left)]).size:
        best = alive[np.argmax(wanted[alive])]
        np.subtract.at(left, batch.rows[best], batch.counts[best])
        found.append(best)
    return np.array(found, dtype=np.intp)


def better(*plans: Plan) -> Plan:
    """The plan worth most; the first of equals."""
    return max(plans, key=lambda plan: plan.value)


def require_scipy(name: str) -> None:
    """Raises BadInput, with its fix, where SciPy is not installed."""
    try:
        import scipy.optimize  # noqa: F401
    except ImportError:
        raise BadInput(
            f"the policy `{name}` needs SciPy, which is not installed.",
            fix="Install it with `pip install 'gpuq-daemon[train]'`, or choose another policy: `gpuq policy list`.",
        ) from None


def _devices(batch: Batch, option: int, taken: set[DeviceId]) -> tuple[Device, ...]:
    """Free devices of the seats that the option asks for; of idle ones that any of many would do, one on the host that has the
    fewest left, so that hosts stay whole for gangs."""
    found: dict[DeviceId, Device] = {}
    uses = list(zip(batch.rows[option], batch.counts[option], strict=True))
    slots = [
        (batch.slots[row - len(batch.jobs)], int(count)) for row, count in uses if count and row >= len(batch.jobs)
    ]
    for slot, count in sorted(slots, key=lambda use: len(use[0].devices)):
        free = [device for device in slot.devices if device.id not in taken and device.id not in found]
        already = sum(device.id in found for device in slot.devices)
        hosts = Counter(device.host for device in free)
        for device in sorted(free, key=lambda device: hosts[device.host])[: count - already]:
            found[device.id] = device
    return tuple(found.values())
