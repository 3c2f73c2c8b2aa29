"""The tables of a campaign: `singles.csv` and `pairs.csv` in the form of docs/characterize.md, and `made.json`.

A single is the median over a job's runs alone, of peak memory the largest. A pair has one line for each of its runs, blank
where it ran out of memory. Failed and disturbed runs are in `runs.jsonl` only. docs/characterize.md describes the further
columns.
"""

from __future__ import annotations

import csv
import io
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median

import msgspec

from gpuq.core.measuring.slowdown import packing_saving
from gpuq.errors import Failure
from gpuq.lab.campaign.ledger import MEASURED, OUT_OF_MEMORY, MeasuredRun
from gpuq.lab.campaign.plan import looseness
from gpuq.lab.campaign.session import Session
from gpuq.lab.campaign.workload_list import WorkloadJob
from gpuq.lab.measured import PAIRS, SINGLES

_MIB = 2**20
SINGLES_MORE = ("family", "measured_at", "runs", "half_width_pct", "warm_up_s")
PAIRS_MORE = (
    "measured_at", "alone_rate_a", "alone_rate_b", "shared_rate_a", "shared_rate_b",
    "half_width_pct", "saving_pct", "equal_work_saving_pct",
)  # fmt: skip


def write_tables(
    folder: Path, jobs: Sequence[WorkloadJob], runs: Sequence[MeasuredRun], sessions: Sequence[Session]
) -> None:
    """Write the three files, each whole or not at all. Raises Failure where the folder cannot be written to."""
    listed = {job.digest: job for job in jobs}
    mine = [run for run in runs if set(run.jobs) <= listed.keys()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _replace(folder / "singles.csv", _table((*SINGLES, *SINGLES_MORE), singles(listed, mine)))
        _replace(folder / "pairs.csv", _table((*PAIRS, *PAIRS_MORE), pairs(mine)))
        _replace(folder / "made.json", msgspec.json.format(msgspec.json.encode(sessions), indent=1) + b"\n")
    except OSError as error:
        raise Failure(
            f"{folder} cannot be written to: {error.strerror or error}.", fix="Name another folder with --out."
        ) from error


def singles(listed: Mapping[str, WorkloadJob], runs: Iterable[MeasuredRun]) -> list[dict[str, object]]:
    """A row for each job of `listed` (by digest) that was measured alone, in the list's order."""
    found: dict[tuple[str, str], list[MeasuredRun]] = defaultdict(list)
    for run in runs:
        if len(run.parts) == 1 and run.outcome == MEASURED:
            found[run.device_type, run.jobs[0]].append(run)
    places = {digest: place for place, digest in enumerate(listed)}
    rows = sorted(found.items(), key=lambda item: (item[0][0], places[item[0][1]]))
    return [_single(listed[digest], measured) for (_, digest), measured in rows]


def pairs(runs: Iterable[MeasuredRun]) -> list[dict[str, object]]:
    """A row for each run of two jobs that was measured or ran out of memory."""
    rows = []
    for run in runs:
        if len(run.parts) != 2 or run.outcome not in (MEASURED, OUT_OF_MEMORY):
            continue
        a, b = run.parts
        row: dict[str, object] = {
            "device_type": run.device_type,
            "sharing": run.sharing,
            "job_a": a.job,
            "job_b": b.job,
            "measured_at": round(run.at),
        }
        if run.outcome == MEASURED and a.slowdown and b.slowdown:
            for side, part in (("a", a), ("b", b)):
                row[f"slowdown_{side}"] = part.slowdown
                row[f"alone_rate_{side}"] = part.alone_rate
                row[f"shared_rate_{side}"] = part.shared_rate
            saving = packing_saving(1.0, (1 / a.slowdown, 1 / b.slowdown))
            row["half_width_pct"] = _percent(looseness([run]))
            row["saving_pct"] = None if saving is None else _percent(saving)
            row["equal_work_saving_pct"] = _percent(equal_work_saving(a.slowdown, b.slowdown))
        rows.append(row)
    return rows


def equal_work_saving(one: float, other: float) -> float:
    """The packing saving of two jobs of equal duration alone that are started together, given their slowdowns.

    With slowdowns a <= b the first job ends after a; by then a / b of the second is done, and the rest runs alone:
    1 - (a + 1 - a / b) / 2. The Alnair project's table of pairs states this saving, for jobs of 3 to 5 minutes.
    """
    quick, slow = sorted((one, other))
    return packing_saving(quick + 1 - quick / slow, (1.0, 1.0)) or 0.0


def _single(job: WorkloadJob, runs: Sequence[MeasuredRun]) -> dict[str, object]:
    parts = [run.parts[0] for run in runs]
    memory = [part.peak_memory_bytes for part in parts if part.peak_memory_bytes and not part.peak_memory_is_bound]
    return {
        "device_type": runs[0].device_type,
        "job": job.name,
        "model": job.model,
        "batch_size": job.batch_size,
        "utilization_pct": _middle([part.peak_utilization_pct for part in parts]),
        "memory_utilization_pct": _middle([part.memory_utilization_pct for part in parts]),
        "peak_memory_mib": round(max(memory) / _MIB, 1) if memory else None,
        "power_w": _middle([part.power_w for part in parts]),
        "steps_per_s": _middle([part.alone_rate for part in parts]),
        "family": job.family or None,
        "measured_at": round(runs[-1].at),
        "runs": len(runs),
        "half_width_pct": _percent(looseness(runs)),
        "warm_up_s": _middle([part.warm_up_s for part in parts]),
    }


def _middle(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(f"{median(known):.5g}") if known else None


def _percent(share: float) -> float | None:
    return round(100 * share, 2) if share != float("inf") else None


def _table(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows({name: "" if value is None else value for name, value in row.items()} for row in rows)
    return text.getvalue().encode()


def _replace(path: Path, content: bytes) -> None:
    aside = path.with_name(f".{path.name}.new")
    aside.write_bytes(content)
    os.replace(aside, path)  # noqa: PTH105 - whole or not at all
