"""The database's clock, which all hosts share, as an expression of SQL."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Double
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement


class UnixTime(FunctionElement[float]):
    """Unix seconds when the row is read. The begin of the transaction may be seconds earlier if it waited for the row."""

    type = Double()
    inherit_cache = True


@compiles(UnixTime, "sqlite")
def _on_sqlite(*_: Any, **__: Any) -> str:
    return "((julianday('now') - 2440587.5) * 86400.0)"


@compiles(UnixTime, "postgresql")
def _on_postgresql(*_: Any, **__: Any) -> str:
    return "CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS double precision)"
