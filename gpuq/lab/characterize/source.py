"""Reads the data of a characterisation: from a folder of CSV files, or from a site's finished attempts.

A folder has `singles.csv` and `pairs.csv` (columns: gpuq/lab/measured.py; either may be missing) or the Alnair project's own
tables.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from gpuq.errors import BadInput
from gpuq.lab.characterize.table import Data, FeatureColumn, FeatureTable, MeasuredPair, MeasuredRow
from gpuq.lab.measured import PairMeasurement, SingleMeasurement, read_pairs, read_singles
from gpuq.lab.public import alnair, number
from gpuq.learn.history.outcome import Outcome

# Only the latest kinds of a record are described: more points cannot be distinguished in a plot.
MOST_ROWS = 2000
_UNNAMED = "not stated"

_SINGLES = (
    FeatureColumn("utilization_pct", most=100.0),
    FeatureColumn("peak_memory_mib"),
    FeatureColumn("batch_size", before=True),
    FeatureColumn("memory_utilization_pct", most=100.0),
    FeatureColumn("power_w"),
    FeatureColumn("steps_per_s"),
)


def read_folder(folder: Path) -> Data:
    """The data of this folder. Raises BadInput if it has none of the known files, or one that cannot be read."""
    if not folder.is_dir():
        raise BadInput(f"There is no folder {folder}.", fix="Name one with singles.csv, pairs.csv, or both.")
    singles, pairs = folder / "singles.csv", folder / "pairs.csv"
    try:
        if singles.is_file() or pairs.is_file():
            alone = read_singles(singles) if singles.is_file() else ()
            data: Data | None = from_singles(str(folder), alone, read_pairs(pairs) if pairs.is_file() else ())
        else:
            data = _alnair(folder)
    except (KeyError, OSError, ValueError) as error:
        what = f"A table in {folder} has no column" if isinstance(error, KeyError) else f"{folder} cannot be read:"
        raise BadInput(f"{what} {error}.", fix="docs/characterize.md lists the files and their columns.") from error
    if data is None or not (data.pairs or any(table.rows for table in data.tables)):
        raise BadInput(
            f"{folder} has no measured jobs.",
            fix="Put singles.csv or pairs.csv there; docs/characterize.md lists their columns.",
        )
    return data


def from_singles(source: str, singles: Sequence[SingleMeasurement], pairs: Sequence[PairMeasurement]) -> Data:
    """Data from tables of gpuq's own form. A job of a pair is looked up among the singles of its device type."""
    indexes = {(single.device_type, single.job): (single.model, single.batch_size) for single in singles}
    found: dict[str, list[MeasuredRow]] = defaultdict(list)
    for single in singles:
        values = {column.name: getattr(single, column.name) for column in _SINGLES}
        found[single.device_type or _UNNAMED].append(MeasuredRow(single.job, single.model, single.batch_size, values))
    tables = tuple(
        FeatureTable(device_type, _SINGLES, tuple(rows), "utilization_pct", "peak_memory_mib", "batch_size")
        for device_type, rows in sorted(found.items())
    )
    together = tuple(
        MeasuredPair(
            device_type=pair.device_type or _UNNAMED,
            sharing=pair.sharing,
            job_a=pair.job_a,
            job_b=pair.job_b,
            place_a=indexes.get((pair.device_type, pair.job_a), (pair.job_a, None)),
            place_b=indexes.get((pair.device_type, pair.job_b), (pair.job_b, None)),
            slowdown_a=pair.slowdown_a,
            slowdown_b=pair.slowdown_b,
        )
        for pair in pairs
    )
    return Data(source, tables, together)


def from_outcomes(source: str, outcomes: Sequence[Outcome]) -> Data:
    """Data from a site's own record: a row for each signature, with the medians over its whole runs.

    A job's series is its script and all features but the batch size.
    """
    whole = [one for one in outcomes if one.whole and not one.shared]
    tables = []
    for device_type in sorted({one.device_type for one in whole}):
        found: dict[str, list[Outcome]] = defaultdict(list)
        for one in whole:
            if one.device_type == device_type:
                found[one.signature].append(one)
        latest = sorted(found.values(), key=lambda runs: max(run.ended_at for run in runs))[-MOST_ROWS:]
        tables.append(_site_table(device_type, [_pooled(runs) for runs in latest], len(found)))
    return Data(source, tuple(tables), _site_pairs(outcomes))


def _site_table(device_type: str, rows: Sequence[MeasuredRow], signatures: int) -> FeatureTable:
    measured = ("peak_utilization_pct", "peak_memory_bytes", "duration_s", "alone_rate")
    before = sorted({name for row in rows for name in row.values} - set(measured))
    columns = (
        FeatureColumn("peak_utilization_pct", most=100.0),
        *(FeatureColumn(name) for name in measured[1:]),
        *(FeatureColumn(name, before=True) for name in before),
    )
    notes = (f"The latest {MOST_ROWS} of {signatures} kinds of work.",) if signatures > MOST_ROWS else ()
    return FeatureTable(
        device_type, columns, tuple(rows), "peak_utilization_pct", "peak_memory_bytes", "batch_size", notes=notes
    )


def _pooled(runs: Sequence[Outcome]) -> MeasuredRow:
    features = runs[-1].features
    # The logarithm of the same number is no further feature.
    values: dict[str, float | None] = {
        name: float(value)
        for name, value in features.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and name != "batch_log2"
    }
    values.setdefault("batch_size", None)
    for name in ("peak_utilization_pct", "peak_memory_bytes", "duration_s", "alone_rate"):
        known = [value for run in runs if (value := getattr(run, name)) is not None]
        values[name] = float(median(known)) if known else None
    return MeasuredRow(runs[-1].kind, _work(features, runs[-1].kind), values["batch_size"], values)


def _work(features: Mapping[str, Any], kind: str) -> str:
    """The name of the series: what stays the same for the same work at another batch size."""
    names = ("script", "model", "precision", "image_size", "sequence_length")
    known = [features.get(name) for name in names]
    parts = [f"{value:g}" if isinstance(value, float) else str(value) for value in known if value is not None]
    return " ".join(parts) or kind


def _site_pairs(outcomes: Iterable[Outcome]) -> tuple[MeasuredPair, ...]:
    """A pair for each two kinds of which one was measured beside the other, with the median slowdown of each."""
    indexes: dict[str, tuple[str, float | None]] = {}
    slowed: dict[tuple[str, str | None, str, str], list[float]] = defaultdict(list)
    for one in outcomes:
        size = one.features.get("batch_size")
        indexes[one.kind] = (_work(one.features, one.kind), float(size) if isinstance(size, int | float) else None)
        for partner, value, _, _ in one.slowdowns:
            slowed[one.device_type, one.sharing, one.kind, partner].append(value)
    classes = {(device_type, sharing, min(pair), max(pair)) for device_type, sharing, *pair in slowed}
    return tuple(
        MeasuredPair(
            device_type=device_type,
            sharing=sharing,
            job_a=a,
            job_b=b,
            place_a=indexes.get(a, (a, None)),
            place_b=indexes.get(b, (b, None)),
            slowdown_a=_middle(slowed.get((device_type, sharing, a, b))),
            slowdown_b=_middle(slowed.get((device_type, sharing, b, a))),
        )
        for device_type, sharing, a, b in sorted(classes, key=lambda sort: tuple(part or "" for part in sort))
    )


def _middle(values: Sequence[float] | None) -> float | None:
    return float(median(values)) if values else None


def _alnair(folder: Path) -> Data | None:
    path, pairs = alnair.workloads(folder), folder / alnair.SEED_PAIRS
    if path is None and not pairs.is_file():
        return None
    tables = () if path is None else (_alnair_table(path),)
    together = tuple(_seed_pairs(pairs)) if pairs.is_file() else ()
    notes = (
        ("The pairs were measured on GPUs that are not stated, the jobs alone on a P100: clusters cross GPU types.",)
        if tables and together
        else ()
    )
    return Data("Alnair: AI workloads resource utilization characterization", tables, together, notes)


def _alnair_table(path: Path) -> FeatureTable:
    rows = list(alnair.workload_rows(path))
    names = [name for name in rows[0] if name not in ("series",)] if rows else []
    texts = tuple(name for name in names if not all(_is_number(row[name]) for row in rows))
    columns = tuple(
        FeatureColumn(
            name,
            before=name in ("BS", "Epoch"),
            shut_out=alnair.workload_leak(name),
            most=100.0 if name in ("MGUP", "MGMAP") else None,
        )
        for name in names
        if name not in texts
    )
    found = tuple(
        MeasuredRow(
            f"{row['series']} {row['BS']}",
            row["series"],
            number(row["BS"]),
            {column.name: number(row[column.name]) for column in columns},
        )
        for row in rows
    )
    return FeatureTable(alnair.WORKLOADS_DEVICE, columns, found, "MGUP", "MGMAP", "BS", texts=texts)


def _seed_pairs(path: Path) -> Iterable[MeasuredPair]:
    for text, value in alnair.seed_pair_rows(path):
        a, b, saving = text["job_a"], text["job_b"], value["published_packing_saving_pct"]
        both: dict[str, tuple[float, float] | None] = {}
        for name in ("iso_s", "co_s", "published_slow_pct"):
            one, other = value[f"{name}_a"], value[f"{name}_b"]
            both[name] = None if one is None or other is None else (one, other)
        printed = both["published_slow_pct"]
        yield MeasuredPair(
            device_type=alnair.SEED_PAIRS_DEVICE,
            sharing=None,
            job_a=f"{a} {value['bs_a']:g}",
            job_b=f"{b} {value['bs_b']:g}",
            place_a=(alnair.seed_series(a), value["bs_a"]),
            place_b=(alnair.seed_series(b), value["bs_b"]),
            slowdown_a=None,
            slowdown_b=None,
            alone_s=both["iso_s"],
            together_s=both["co_s"],
            printed_slowdowns=None if printed is None else (1 + printed[0] / 100, 1 + printed[1] / 100),
            printed_saving=None if saving is None else saving / 100,
            printed_clusters=(text["cluster_a"], text["cluster_b"]),
        )


def _is_number(text: str) -> bool:
    try:
        number(text)
    except ValueError:
        return False
    return True
