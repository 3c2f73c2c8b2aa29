"""Hosts that joined, or were invited to. A row changes only from what its writer read, so of two writers one succeeds."""

from __future__ import annotations

from msgspec import structs
from sqlalchemy import Connection, delete, select, update

from gpuq.adapters.store import cycle
from gpuq.adapters.store.row_types import JoinedHost
from gpuq.adapters.store.rows import clean
from gpuq.adapters.store.schema import joined_hosts


def read(connection: Connection, host: str) -> JoinedHost | None:
    """The row of one host, or None."""
    row = connection.execute(select(joined_hosts).where(joined_hosts.c.host == clean(host))).first()
    return None if row is None else JoinedHost(**row._mapping)


def replace(connection: Connection, before: JoinedHost | None, after: JoinedHost | None) -> bool:
    """See `Store.replace_joined_host`."""
    if before is None:
        if after is None:
            return True
        if read(connection, after.host) is not None:
            return False
        cycle.insert_rows(connection, joined_hosts, [structs.asdict(after)], replace=False)
        return read(connection, after.host) == after
    same = [joined_hosts.c[name].is_not_distinct_from(value) for name, value in structs.asdict(before).items()]
    change = delete(joined_hosts) if after is None else update(joined_hosts).values(structs.asdict(after))
    return connection.execute(change.where(*same)).rowcount == 1
