"""A plan is a set of options of a batch that fit together. This module has greedy plans and the policy around a planner.

A planner is a function from a batch to a plan. Its policy proposes the plan, the most valuable option first, and then what the
default policy would start on the devices that are left: a plan may leave out jobs that can start, and every job that stays in the
queue should get a reason from admission.
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


@dataclass(frozen=True)
class Plan:
    """`chosen` are indices of the batch's options. `bound` is an upper bound of any plan's value, None if the planner has
    none."""

    batch: Batch
    chosen: Indices
    bound: float | None = None

    @property
    def value(self) -> float:
        """Weighted completions per hour."""
        return float(self.batch.value[self.chosen].sum())

    def proposals(self) -> Iterator[Proposal]:
        """The starts of this pass, the most valuable option first.

        Gangs choose their devices before single jobs, whatever their value: they need devices of one host, while a single job can
        use any device of its slot.
        """
        batch, taken = self.batch, set[DeviceId]()
        devices_of: dict[int, tuple[Device, ...]] = {}
        for option in sorted(self.chosen, key=lambda option: -batch.devices[option]):
            devices_of[int(option)] = devices = _devices(batch, int(option), taken)
            taken.update(device.id for device in devices)
        for option in sorted(devices_of, key=lambda option: -batch.value[option]):
            yield Proposal(batch.jobs[batch.first[option]], devices_of[option])


Solve = Callable[[Batch], Plan]


def planner(solve: Solve, scheduling: Scheduling) -> Policy:
    """The policy that plans each pass by `solve` and starts by `packing` what the plan leaves."""
    book, rest, most = PairBook(), packing(scheduling), scheduling.plan_jobs

    def policy(context: SchedulingContext) -> Iterator[Proposal | Eviction]:
        batch = build_batch(context, foremost(context.waiting, most), context.snapshots, book)
        if batch.size:
            # On a single device a plan is one option, so the greedy plan is optimal.
            yield from (solve if batch.open_devices > 1 else greedy)(batch).proposals()
        yield from rest(context)

    return policy


def packing(scheduling: Scheduling) -> Policy:
    """The default policy without backfill rule and preemption, whatever the settings say.

    No preemption, because the planner does not know for which job a device was freed and could give it to the stopped job again.
    """
    return list_scheduler(order.priority_first(order.shortest(scheduling.overtaking), scheduling.ageing_s))


def greedy(batch: Batch) -> Plan:
    """Repeatedly the option with the highest value per device that still fits. Planners start from it and are never worse."""
    return Plan(batch, complete(batch, np.empty(0, dtype=np.intp)))


def complete(batch: Batch, chosen: Indices, score: Numbers | None = None, among: Indices | None = None) -> Indices:
    """`chosen`, and what still fits, taken greedily by `score` (m); by default the value per device.

    `among` are the options to consider; by default all.
    """
    wanted = batch.density if score is None else score
    left = batch.left(chosen)
    alive = np.arange(batch.size) if among is None else among
    completed = list(chosen)
    while (alive := alive[batch.fit(alive, left)]).size:
        best = alive[np.argmax(wanted[alive])]
        np.subtract.at(left, batch.rows[best], batch.counts[best])
        completed.append(best)
    return np.array(completed, dtype=np.intp)


def better(*plans: Plan) -> Plan:
    """The plan with the highest value; the first of equal ones."""
    return max(plans, key=lambda plan: plan.value)


def require_scipy(name: str) -> None:
    """Raises BadInput if SciPy is not installed. Called when a policy is made, so that the fault is found before a pass."""
    try:
        import scipy.optimize  # noqa: F401
    except ImportError:
        raise BadInput(
            f"the policy `{name}` needs SciPy, which is not installed.",
            fix="Install it with `pip install 'gpuq-daemon[train]'`, or choose another policy: `gpuq policy list`.",
        ) from None


def _devices(batch: Batch, option: int, taken: set[DeviceId]) -> tuple[Device, ...]:
    """Devices of the option's slots that are not taken.

    A gang uses a slot of equivalent devices and one of them on a host, so the smaller slot chooses first and counts for the
    larger. Where several hosts would do, the one with the fewest free devices is used, so that others stay whole for gangs.
    """
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
