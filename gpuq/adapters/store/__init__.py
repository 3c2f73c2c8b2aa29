"""The record: SQL, through SQLAlchemy Core. Start with `contract.py`; `open_store` gives what keeps it.

contract.py  what is promised, and the rows handed out      sql.py       the calls
schema.py    the tables                                     submit.py    submissions and requests
rows.py      nouns to columns and back                      turn.py      one turn of the ring
database.py  connections and transactions                   journal.py   the journal
faults.py    a driver's complaint as an error with a fix    revision.py  does the schema fit
migrate.py   upgrade, downgrade, check; the command line    select.py    the jobs that a request is about
"""

from __future__ import annotations

from gpuq.adapters.store.contract import Store
from gpuq.adapters.store.database import Database
from gpuq.adapters.store.revision import check
from gpuq.adapters.store.sql import SqlStore

__all__ = ["open_store"]


def open_store(database_url: str) -> Store:
    """The record at `database_url`, once its schema is known to fit. Open it anew after a fork.

    Raises BadSettings, Unreachable, SchemaMismatch or Failure.
    """
    database = Database(database_url)
    try:
        check(database)
    except BaseException:
        database.close()
        raise
    return SqlStore(database)
