"""The whole characterisation as plain data for JSON. Types of device, and ways of sharing, are kept apart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec

from gpuq.lab.characterize.groups import Clustering, Groups, cluster
from gpuq.lab.characterize.packing import Cost, MeasuredPairCost, SeriesAtBatch, costs, summarise
from gpuq.lab.characterize.relevance import Ranking, rank
from gpuq.lab.characterize.synthetic import Quality, SyntheticRow, by_series, judge, profile, synthesise
from gpuq.lab.characterize.table import Data, FeatureTable, MeasuredPair


class Characterization(msgspec.Struct, frozen=True, kw_only=True):
    """The findings of one table. `attributes`: the columns with synthetic values, that is the targets and chosen features."""

    device_type: str
    rows: int
    series: int
    targets: tuple[str, ...]
    batch: str
    rankings: tuple[Ranking, ...]
    attributes: tuple[str, ...]
    interpolation: tuple[Quality, ...]
    synthetic: tuple[SyntheticRow, ...]
    clusters: Groups | None
    notes: tuple[str, ...]


class Packing(msgspec.Struct, frozen=True, kw_only=True):
    """What pairs on one type of device under one way of sharing cost. `clusters_from` is the table our clusters are of."""

    device_type: str
    sharing: str | None
    clusters_from: str | None
    pairs: tuple[MeasuredPairCost, ...]
    costs: tuple[Cost, ...]

    @property
    def title(self) -> str:
        """Device type and way of sharing."""
        return self.device_type if self.sharing is None else f"{self.device_type}, {self.sharing}"


class CharacterizationReport(msgspec.Struct, frozen=True, kw_only=True):
    """A characterisation: one part for each table, and one for the pairs of each device type and way of sharing."""

    format: int = 1
    source: str
    tables: tuple[Characterization, ...]
    packing: tuple[Packing, ...]
    notes: tuple[str, ...]


def characterize(data: Data) -> CharacterizationReport:
    """The report of these data. A table without rows, or data without pairs, give empty parts and no error."""
    described = [_describe(table) for table in data.tables]
    places = [place for _, place in described]
    sorts: dict[tuple[str, str], list[MeasuredPair]] = defaultdict(list)
    for pair in data.pairs:
        sorts[pair.device_type, pair.sharing or ""].append(pair)
    return CharacterizationReport(
        source=data.source,
        tables=tuple(found for found, _ in described),
        packing=tuple(_packing(pairs, places) for _, pairs in sorted(sorts.items())),
        notes=data.notes,
    )


def to_json(report: CharacterizationReport) -> bytes:
    """Readable JSON; the same report gives the same bytes."""
    return msgspec.json.format(msgspec.json.encode(report, order="deterministic"), indent=1)


class _ClusterOf:
    """Finds the cluster of a job at a batch size among the clusters of one table."""

    def __init__(self, table: FeatureTable, placing: Clustering | None, used: Mapping[str, str]) -> None:
        self.device_type = table.device_type
        self._batch = table.batch
        self._placing = placing
        self._used = used
        self._collected = by_series(table)
        groups = () if placing is None else placing.found.groups
        self._own = {
            (member.series, member.batch_size): group.number
            for group in groups
            for member in group.members
            if not member.synthetic
        }

    def cluster(self, place: SeriesAtBatch) -> int | None:
        """By its own row where it was clustered, else by its profile interpolated at its batch size; else None."""
        series, size = place
        if place in self._own or self._placing is None or size is None or series not in self._collected:
            return self._own.get(place)
        return self._placing.cluster({**profile(self._collected[series], size, self._used), self._batch: size})


def _describe(table: FeatureTable) -> tuple[Characterization, _ClusterOf]:
    rankings = tuple(rank(table, target) for target in table.targets)
    attributes = tuple(dict.fromkeys([*table.targets, *(name for ranking in rankings for name in ranking.chosen)]))
    judged = [judge(table, table.column(name)) for name in attributes if name != table.batch]
    used = {quality.column: quality.method for found in judged for quality in found if quality.used}
    synthetic = synthesise(table, used)
    placing = cluster(table, synthetic, attributes)
    found = Characterization(
        device_type=table.device_type,
        rows=len(table.rows),
        series=len({row.series for row in table.rows}),
        targets=table.targets,
        batch=table.batch,
        rankings=rankings,
        attributes=attributes,
        interpolation=tuple(quality for found in judged for quality in found),
        synthetic=synthetic,
        clusters=None if placing is None else placing.found,
        notes=(*table.notes, *_notes(table, placing)),
    )
    return found, _ClusterOf(table, placing, used)


def _notes(table: FeatureTable, placing: Clustering | None) -> list[str]:
    notes = []
    alone = sum(len({size for size, _ in rows}) == 1 for rows in by_series(table).values())
    if alone:
        notes.append(f"{alone} series with a single batch size get no synthetic rows: nothing is extrapolated.")
    unsized = sum(row.batch_size is None for row in table.rows)
    if unsized:
        notes.append(f"{unsized} rows without a batch size take no part in the interpolation.")
    missing = [name for name in (table.utilization, table.memory) if name not in table.targets]
    if missing:
        notes.append(f"Not measured: {', '.join(missing)}.")
    if placing is not None and placing.found.left_out:
        notes.append(f"{placing.found.left_out} rows miss a value and are in no cluster.")
    return notes


def _packing(pairs: Sequence[MeasuredPair], places: Sequence[_ClusterOf]) -> Packing:
    """The pairs' part. Its clusters are of the pairs' own device type, or of the only table if that is of another type."""
    device_type = pairs[0].device_type
    own = [one for one in places if one.device_type == device_type]
    chosen = own[0] if own else places[0] if len(places) == 1 else None
    found = costs(pairs, (lambda _: None) if chosen is None else chosen.cluster)
    placed = any(cluster is not None for pair in found for cluster in pair.clusters)
    return Packing(
        device_type=device_type,
        sharing=pairs[0].sharing,
        clusters_from=chosen.device_type if chosen is not None and placed else None,
        pairs=found,
        costs=summarise(found),
    )
