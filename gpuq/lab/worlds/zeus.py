"""A world of four types of GPU with measured time and power (Zeus, github.com/ml-energy/zeus, Apache-2.0), and a trace for it.

The files are `zeus_power.csv`, `zeus_train.csv` and `gavel_isolated.csv`. Times and power are those at the highest power limit;
a job's length comes from the epochs that a measured run needed to its goal. Speed-ups by number of GPUs come from Gavel's P100s
(github.com/stanford-futuredata/gavel, MIT). Memory and pairs were not measured, so jobs do not share here.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from gpuq.core.state.device import Device, DeviceId, HostId
from gpuq.core.state.job import JobId
from gpuq.lab.public import rows
from gpuq.sim.trace import JobArrival, Trace
from gpuq.sim.world import Workload, World

# The fastest first, in the order of devices and of their ids, so that a policy that takes the first idle GPU takes a fast one.
TYPES = ("a40", "v100", "rtx6000", "p100")
REFERENCE = "v100"
GPUS_PER_HOST = 4
# A choice: idle power was not measured. About what data centre cards report without a job.
IDLE_W = 30.0
# A choice: the numbers of GPUs that jobs ask for, and how often. Most jobs of every public trace ask for one.
ASKED = {1: 0.6, 2: 0.25, 4: 0.15}
# A choice: a deadline is this many times the job's best duration after its submission, drawn evenly.
SLACK = (1.5, 5.0)
PRIORITIES = (0, 1, 2)

# Network -> the job of Gavel that stands for it: a similar network, measured on 1, 2, 4 and 8 GPUs.
_SIMILAR = {
    "shufflenetv2": "ResNet-18",
    "resnet50": "ResNet-50",
    "bert_base_uncased": "Transformer",
    "deepspeech2": "LM",
    "ncf": "Recommendation",
}


class _Setting(NamedTuple):
    dataset: str
    network: str
    batch_size: int
    optimizer: str


@dataclass(frozen=True)
class _Training:
    """One workload, and the epochs that its runs needed."""

    workload: Workload
    epoch_s: float
    epochs: tuple[float, ...]


def zeus(data: Path, *, gpus: int, jobs: int, load: float, seed: int) -> tuple[Trace, World]:
    """A world of `gpus` GPUs in hosts of four, as many of each type, and Poisson arrivals that ask for `load` of what it can
    do.

    Each job draws a training evenly (network first, then batch size), one of the measured runs' epochs, GPUs, priority and
    deadline. It may be given up to four GPUs, where more than one were measured. The same seed gives the same jobs whatever
    the load, only closer together.
    Raises OSError where a file is missing.
    """
    trainings = _trainings(data)
    draw = random.Random(seed)  # noqa: S311 - a simulation
    networks = sorted({name.split(" ")[0] for name in trainings})
    arrivals, kinds = [], {}
    rate = _rate(trainings, networks, gpus, load)
    now = 0.0
    for number in range(1, jobs + 1):
        now += draw.expovariate(1.0) / rate
        network = draw.choice(networks)
        name = draw.choice(sorted(name for name in trainings if name.split(" ")[0] == network))
        training = trainings[name]
        measured = training.workload.speedups
        asked = min(draw.choices(list(ASKED), list(ASKED.values()))[0], max(measured))
        duration = draw.choice(training.epochs) * training.epoch_s / measured[asked]
        kind = f"{name} x{asked}"
        kinds[kind] = name
        best = duration / max(training.workload.speeds.values())
        arrivals.append(
            JobArrival(
                job=JobId(number),
                submit_s=now,
                duration_s=duration,
                devices=asked,
                kind=kind,
                owner=f"user{draw.randrange(8)}",
                priority=draw.choice(PRIORITIES),
                deadline_s=now + draw.uniform(*SLACK) * best,
                most_devices=max(measured),
            )
        )
    return Trace(f"zeus at {load:.0%}", tuple(arrivals), _notes(len(trainings))), _world(trainings, kinds, gpus)


def _notes(count: int) -> tuple[str, ...]:
    low, high = SLACK
    return (
        f"{count} trainings measured on all of {', '.join(TYPES)}, at the highest power limit",
        "epochs: the best goal that half of the runs reached; a job draws one of the runs that did",
        f"GPUs asked for: {', '.join(f'{share:.0%} {asked}' for asked, share in ASKED.items())}; up to {GPUS_PER_HOST} given",
        f"speed-ups: Gavel's P100, {', '.join(f'{network} as {like}' for network, like in _SIMILAR.items())}",
        f"deadline: {low:g} to {high:g} times the duration on the fastest type, drawn evenly",
        f"idle GPU: {IDLE_W:g} W, a choice; each GPU of several draws what one does, a choice",
    )


def _rate(trainings: Mapping[str, _Training], networks: list[str], gpus: int, load: float) -> float:
    """Arrivals per second: a job's mean GPU-seconds on the average GPU here, against what the GPUs have to give."""
    by_network: dict[str, list[float]] = defaultdict(list)
    for name, training in trainings.items():
        alone = fmean(training.epochs) * training.epoch_s / fmean(training.workload.speeds.values())
        measured = training.workload.speedups
        counts = {asked: min(asked, max(measured)) for asked in ASKED}
        devices_s = sum(share * counts[asked] / measured[counts[asked]] for asked, share in ASKED.items())
        by_network[name.split(" ")[0]].append(alone * devices_s)
    return load * gpus / fmean(fmean(by_network[network]) for network in networks)


def _world(trainings: Mapping[str, _Training], kinds: Mapping[str, str], gpus: int) -> World:
    hosts = gpus // GPUS_PER_HOST
    types = sorted((TYPES[number % len(TYPES)] for number in range(hosts)), key=TYPES.index)
    devices = tuple(
        Device(DeviceId(f"{host:03}-{kind}/{number}"), HostId(f"{host:03}-{kind}"), "sim", kind, 48 * 2**30)
        for host, kind in enumerate(types)
        for number in range(GPUS_PER_HOST)
    )
    workloads = {name: training.workload for name, training in trainings.items()}
    return World("zeus", devices, workloads, dict(kinds), {}, dict.fromkeys(TYPES, IDLE_W))


# --- what was measured -------------------------------------------------------------------------------------------------


def _trainings(data: Path) -> dict[str, _Training]:
    """The settings measured on every type whose goal was reached, by name."""
    measured, goals = _times_and_powers(data / "zeus_power.csv"), _epochs(data / "zeus_train.csv")
    scaling = _scaling(data / "gavel_isolated.csv")
    trainings = {}
    for setting, by_type in measured.items():
        if set(by_type) != set(TYPES) or setting not in goals:
            continue
        reference, _ = by_type[REFERENCE]
        workload = Workload(
            name=f"{setting.network}-{setting.dataset} {setting.batch_size}",
            model=setting.network,
            batch_size=setting.batch_size,
            utilization_pct=100.0,
            speeds={kind: reference / seconds for kind, (seconds, _) in by_type.items()},
            powers={kind: watts for kind, (_, watts) in by_type.items()},
            speedups=_nearest(scaling[_SIMILAR[setting.network]], setting.batch_size),
        )
        trainings[workload.name] = _Training(workload, reference, goals[setting])
    return trainings


def _setting(row: Mapping[str, str]) -> _Setting:
    return _Setting(row["dataset"], row["network"], int(row["batch_size"]), row["optimizer"])


def _times_and_powers(path: Path) -> dict[_Setting, dict[str, tuple[float, float]]]:
    """(seconds per epoch, mean watts) by type, at the highest power limit measured there."""
    highest: dict[_Setting, dict[str, tuple[float, float, float]]] = defaultdict(dict)
    for row in rows(path):
        limit = float(row["power_limit_w"])
        by_type = highest[_setting(row)]
        if row["gpu"] not in by_type or by_type[row["gpu"]][0] < limit:
            by_type[row["gpu"]] = (limit, float(row["time_per_epoch_s"]), float(row["avg_power_w"]))
    return {setting: {kind: found[1:] for kind, found in by_type.items()} for setting, by_type in highest.items()}


def _epochs(path: Path) -> dict[_Setting, tuple[float, ...]]:
    """The epochs of the runs that reached the hardest goal that at least half of the runs reached."""
    runs: dict[_Setting, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for row in rows(path):
        runs[_setting(row)][row["target_metric"]].append(row["target_epoch"])
    hardest = {}
    for setting, goals in runs.items():
        reached = [
            [float(epoch) for epoch in found if epoch]
            for found in goals.values()
            if 2 * sum(map(bool, found)) >= len(found)
        ]
        if reached:
            hardest[setting] = tuple(max(reached, key=fmean))
    return hardest


def _scaling(path: Path) -> dict[str, dict[int, dict[int, float]]]:
    """By job and batch size: how many times faster on so many P100s of one server than on one, never more than as many times,
    nor less than on fewer."""
    rates: dict[str, dict[int, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for row in rows(path):
        if row["set"] == "simulation" and row["gpu"] == "p100" and row["batch_size"]:
            rates[row["job"]][int(float(row["batch_size"]))][int(row["num_gpus"])] = float(row["steps_per_s"])
    return {
        job: {batch: _speedups(by_count) for batch, by_count in by_batch.items() if by_count.get(1)}
        for job, by_batch in rates.items()
    }


def _speedups(rates: Mapping[int, float]) -> dict[int, float]:
    found, best = {}, 1.0
    for count in sorted(count for count in rates if count <= GPUS_PER_HOST):
        best = max(best, min(float(count), rates[count] / rates[1]))
        found[count] = best
    return found


def _nearest(by_batch: Mapping[int, dict[int, float]], batch_size: int) -> dict[int, float]:
    return by_batch[min(by_batch, key=lambda batch: (abs(math.log(batch / batch_size)), batch))]
