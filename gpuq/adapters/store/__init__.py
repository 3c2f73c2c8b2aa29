"""The database, through SQLAlchemy Core on SQLite or PostgreSQL. Start with `contract.py`; `open_store` opens one.

contract.py  what the store promises                       row_types.py  what it gives and takes
sql.py       the calls                                     submit.py    submissions and requests
schema.py    the tables                                    cycle.py     what one cycle of the dispatcher writes
rows.py      values to columns and back                    journal.py   the journal
database.py  connections and transactions                  revision.py  whether the schema fits
faults.py    a driver's error as one with a fix            claims.py    the fenced start, and the lease of a host's name
clock.py     the database's clock                          lists.py     jobs and arrays by conditions and patterns
joined.py    hosts that joined, or were invited to         array_records.py  what tasks of an array have in common
leadership.py  the lease of the leading dispatcher, and the fence of its commits
suspension.py  a bound for the locks of a client that is suspended
migrate.py   upgrade, downgrade, check; the command line
"""

from __future__ import annotations

from gpuq.adapters.store.contract import Store

__all__ = ["open_store"]


def open_store(database_url: str) -> Store:
    """The store at `database_url`, after a check that its schema fits. Not to be used across a fork.

    Raises BadSettings, Unreachable, SchemaMismatch or Failure.
    """
    # Here, because SQLAlchemy takes half a second to load, and a host that joined needs the contract only.
    from gpuq.adapters.store.database import Database
    from gpuq.adapters.store.revision import check
    from gpuq.adapters.store.sql import SqlStore

    database = Database(database_url)
    try:
        check(database)
    except BaseException:
        database.close()
        raise
    return SqlStore(database)
