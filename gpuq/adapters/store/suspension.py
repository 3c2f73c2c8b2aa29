"""A bound for the locks of a client that is suspended in the middle of a transaction.

PostgreSQL keeps the locks of a client that sends nothing, and any process can be stopped between two of its statements. So the
statement that locks a row which all others need also says how long the transaction may be idle.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Boolean, Text, bindparam
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

SUSPENDED_S = 4.0
"""PostgreSQL ends a transaction whose client sends nothing for this long."""


class _EndedIfSuspended(FunctionElement[bool]):
    """True. From here on PostgreSQL ends the transaction if it is idle for longer than the argument, such as "4000ms"."""

    type = Boolean()
    inherit_cache = True


@compiles(_EndedIfSuspended, "postgresql")
def _on_postgresql(element: _EndedIfSuspended, compiler: SQLCompiler, **given: Any) -> str:
    after = compiler.process(element.clauses, **given)
    return f"set_config('idle_in_transaction_session_timeout', {after}, true) IS NOT NULL"


@compiles(_EndedIfSuspended, "sqlite")
def _on_sqlite(element: _EndedIfSuspended, compiler: SQLCompiler, **given: Any) -> str:
    return f"{compiler.process(element.clauses, **given)} IS NOT NULL"


def _longest_idle() -> str:
    return f"{SUSPENDED_S * 1000:.0f}ms"


ENDED_IF_SUSPENDED = _EndedIfSuspended(bindparam("idle", callable_=_longest_idle, type_=Text()))
"""A condition, always true, for the statement that locks the row. A second statement would come too late, because the client
can be suspended before it. SQLite has no server that could end the transaction: there it does nothing."""
