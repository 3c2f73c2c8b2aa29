"""Small tables whose answers one can work out by hand."""

from __future__ import annotations

from collections.abc import Sequence

from gpuq.lab.characterize.table import FeatureColumn, FeatureTable, MeasuredPair, MeasuredRow

BATCHES = (2, 32, 128, 256, 1024)
FEATURES = (
    FeatureColumn("batch", before=True),
    FeatureColumn("power"),
    FeatureColumn("boots", shut_out="counts since boot"),
)


def table(rows: Sequence[MeasuredRow], features: Sequence[FeatureColumn] = FEATURES) -> FeatureTable:
    columns = (FeatureColumn("util", most=100.0), FeatureColumn("memory"), *features)
    return FeatureTable("Test GPU", columns, tuple(rows), "util", "memory", "batch")


def row(series: str, batch: float | None, **values: float | None) -> MeasuredRow:
    return MeasuredRow(f"{series} {batch}", series, batch, {"batch": batch, **values})


def site(series: int = 4, batches: Sequence[int] = BATCHES) -> FeatureTable:
    """Jobs that use more of everything with each doubling, the later series more than the earlier ones."""
    return table(
        [
            row(
                f"net{one}",
                batch,
                util=10.0 + 20 * one + 2 * place,
                memory=1000.0 * (1 + one) + 100 * place**2,
                power=50.0 + 21 * one + 2 * place + (place % 2),
                boots=10.0 + 20 * one + 2 * place,
            )
            for one in range(series)
            for place, batch in enumerate(batches)
        ]
    )


def pair(a: str = "x 1", b: str = "y 1", **changes: object) -> MeasuredPair:
    values: dict[str, object] = {
        "device_type": "Test GPU", "sharing": None, "job_a": a, "job_b": b, "place_a": ("x", 1.0), "place_b": ("y", 1.0),
        "slowdown_a": 1.2, "slowdown_b": 1.5,
    }  # fmt: skip
    return MeasuredPair(**{**values, **changes})  # type: ignore[arg-type]
