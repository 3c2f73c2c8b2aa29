"""Clusters of similar jobs: K-means over the targets and the chosen features, measured and synthetic rows together.

Columns are standardised, batch sizes taken by their logarithm. Rows that lack one of the columns are left out and counted.
Clusters are numbered from the least to the most utilised.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from gpuq.lab.characterize.synthetic import SyntheticRow
from gpuq.lab.characterize.table import FeatureTable, usable
from gpuq.learn.training.kmeans import Points, group

# A column that a smaller share of the rows has is not used: the rows without it would be lost.
_LEAST_SHARE = 0.8


class GroupMember(msgspec.Struct, frozen=True):
    """A row in a cluster: measured, or interpolated if `synthetic`."""

    job: str
    series: str
    batch_size: float | None
    synthetic: bool
    values: dict[str, float]


class Group(msgspec.Struct, frozen=True):
    """A cluster: its number from 1, the means of its columns in their own units, its rows."""

    number: int
    centre: dict[str, float]
    members: tuple[GroupMember, ...]


class Groups(msgspec.Struct, frozen=True, kw_only=True):
    """All clusters of a table. `distortions[k - 1]` is the sum of squared standardised distances for k clusters."""

    columns: tuple[str, ...]
    groups: tuple[Group, ...]
    distortions: tuple[float, ...]
    left_out: int


@dataclass(frozen=True, slots=True)
class Standardisation:
    """Turns values into standardised coordinates."""

    columns: tuple[str, ...]
    batch: str
    middle: Points
    spread: Points

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, float]], columns: Sequence[str], batch: str) -> Standardisation:
        """Fitted to the rows to be clustered. A column that is constant among them is left out."""
        raw = _coordinates(rows, columns, batch)
        varied = [index for index in range(len(columns)) if np.ptp(raw[:, index]) > 0]
        kept = raw[:, varied]
        return cls(tuple(columns[index] for index in varied), batch, kept.mean(axis=0), kept.std(axis=0))

    def points(self, rows: Sequence[Mapping[str, float]]) -> Points:
        """The coordinates of these rows, one line each."""
        return np.asarray((_coordinates(rows, self.columns, self.batch) - self.middle) / self.spread)


@dataclass(frozen=True, slots=True)
class Clustering:
    """The clusters, and what is needed to assign a job that is not among their rows."""

    found: Groups
    scale: Standardisation
    centres: Points

    def cluster(self, profile: Mapping[str, float]) -> int | None:
        """The number of the nearest cluster; None for a profile that lacks a column."""
        if any(name not in profile for name in self.scale.columns):
            return None
        away = ((self.centres - self.scale.points([profile])) ** 2).sum(axis=1)
        return int(np.argmin(away)) + 1


def cluster(table: FeatureTable, synthetic: Sequence[SyntheticRow], columns: Sequence[str]) -> Clustering | None:
    """Clusters over those of these columns that enough rows have; None where there are none."""
    columns = [name for name in columns if sum(table.known(name)) >= max(1.0, _LEAST_SHARE * len(table.rows))]
    collected = [
        GroupMember(row.job, row.series, row.batch_size, False, {name: row.values[name] for name in columns})  # type: ignore[misc]
        for row in table.rows
        if all(usable(row.values.get(name)) for name in columns)
    ]
    made = [
        GroupMember(
            f"{row.series} {row.batch_size:g}",
            row.series,
            row.batch_size,
            True,
            {name: row.values[name] for name in columns},
        )
        for row in synthetic
        if all(name in row.values for name in columns)
    ]
    members = [*collected, *made]
    if not columns or not members:
        return None
    scale = Standardisation.of([member.values for member in members], columns, table.batch)
    if not scale.columns:
        return None
    result = group(scale.points([member.values for member in members]), whole_curve=True)
    of_label = {
        label: [m for m, its in zip(members, result.labels, strict=True) if its == label]
        for label in set(result.labels)
    }
    by_use = {label: float(np.mean([member.values[columns[0]] for member in own])) for label, own in of_label.items()}
    order = sorted(by_use, key=lambda label: (by_use[label], label))
    groups = []
    for number, label in enumerate(order, start=1):
        own = of_label[label]
        centre = {name: float(np.mean([member.values[name] for member in own])) for name in own[0].values}
        groups.append(Group(number, centre, tuple(own)))
    found = Groups(
        columns=scale.columns,
        groups=tuple(groups),
        distortions=result.distortions,
        left_out=len(table.rows) - len(collected),
    )
    return Clustering(found, scale, result.centres[order])


def _coordinates(rows: Sequence[Mapping[str, float]], columns: Sequence[str], batch: str) -> Points:
    raw = np.array([[row[name] for name in columns] for row in rows], dtype=np.float64).reshape(len(rows), -1)
    for index, name in enumerate(columns):
        if name == batch:
            raw[:, index] = np.log2(np.maximum(raw[:, index], 1e-9))
    return raw
