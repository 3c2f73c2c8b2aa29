"""Small tables whose answers one can work out by hand."""

from __future__ import annotations

from collections.abc import Sequence

from gpuq.lab.characterize.table import Column, Row, Table, Together

BATCHES = (2, 32, 128, 256, 1024)
FEATURES = (Column("batch", before=True), Column("power"), Column("boots", shut_out="counts since boot"))


def table(rows: Sequence[Row], features: Sequence[Column] = FEATURES) -> Table:
    columns = (Column("util", most=100.0), Column("memory"), *features)
    return Table("Test GPU", columns, tuple(rows), "util", "memory", "batch")


def row(series: str, batch: float | None, **values: float | None) -> Row:
    return Row(f"{series} {batch}", series, batch, {"batch": batch, **values})


def site(series: int = 4, batches: Sequence[int] = BATCHES) -> Table:
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


def pair(a: str = "x 1", b: str = "y 1", **changes: object) -> Together:
    values: dict[str, object] = {
        "device_type": "Test GPU", "sharing": None, "job_a": a, "job_b": b, "place_a": ("x", 1.0), "place_b": ("y", 1.0),
        "slowdown_a": 1.2, "slowdown_b": 1.5,
    }  # fmt: skip
    return Together(**{**values, **changes})  # type: ignore[arg-type]
