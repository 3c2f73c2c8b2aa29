"""The types of a characterisation's data: columns, jobs measured alone, and jobs measured together.

A `FeatureTable` holds jobs that ran alone on one type of device; tables of different types are never mixed. Unknown is None.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class FeatureColumn:
    """One number that was recorded of every job.

    `before`: it is known before the job runs. `shut_out`: the reason why it must not be a feature, for example because it is a
    counter that shows what ran before, or the target under another name. `most`: the largest possible value.
    """

    name: str
    before: bool = False
    shut_out: str | None = None
    most: float | None = None


@dataclass(frozen=True, slots=True)
class MeasuredRow:
    """One job that ran alone. `series` names the work; jobs of one series differ in batch size. Column -> value."""

    job: str
    series: str
    batch_size: float | None
    values: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class FeatureTable:
    """Measured jobs of one type of device.

    `utilization` and `memory` name the columns of the two targets, peak utilisation and peak memory; `batch` that of
    the batch size. `texts` are columns without numbers, which are listed but not used.
    """

    device_type: str
    columns: tuple[FeatureColumn, ...]
    rows: tuple[MeasuredRow, ...]
    utilization: str
    memory: str
    batch: str
    texts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def targets(self) -> tuple[str, ...]:
        """The targets that at least one row has."""
        return tuple(name for name in (self.utilization, self.memory) if any(self.known(name)))

    @property
    def features(self) -> tuple[FeatureColumn, ...]:
        """All columns but the targets."""
        return tuple(column for column in self.columns if column.name not in (self.utilization, self.memory))

    def column(self, name: str) -> FeatureColumn:
        """The column of that name. Raises KeyError."""
        return next(column for column in self.columns if column.name == name)

    def known(self, name: str) -> Iterator[bool]:
        """For each row, whether it has this column."""
        return (usable(row.values.get(name)) for row in self.rows)


@dataclass(frozen=True, slots=True)
class MeasuredPair:
    """Two jobs that ran together. Times in seconds; a slowdown is time together / time alone.

    A job is a series at a batch size. What was printed beside the measurement (`printed_…`: slowdowns, share of time
    saved, the cluster of each job) is kept to check against; None where nothing was.
    """

    device_type: str
    sharing: str | None
    job_a: str
    job_b: str
    place_a: tuple[str, float | None]
    place_b: tuple[str, float | None]
    slowdown_a: float | None
    slowdown_b: float | None
    alone_s: tuple[float, float] | None = None
    together_s: tuple[float, float] | None = None
    printed_slowdowns: tuple[float, float] | None = None
    printed_saving: float | None = None
    printed_clusters: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Data:
    """Everything that one source holds: a table for each type of device, and the pairs."""

    source: str
    tables: tuple[FeatureTable, ...]
    pairs: tuple[MeasuredPair, ...] = ()
    notes: tuple[str, ...] = field(default=())


def usable(value: float | None) -> bool:
    """Whether it is a finite number."""
    return value is not None and math.isfinite(value)
