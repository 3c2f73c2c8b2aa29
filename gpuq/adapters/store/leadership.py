"""The leadership of the dispatchers: a lease in a table of one row, and the fence of every commit.

Taking the leadership raises `epoch`. A commit names the epoch of its dispatcher; its first statement renews the lease where that
epoch is still the current one, and if it changes no row, nothing of the commit is kept. So renewal and fence are one statement,
and a dispatcher that was suspended while another took over cannot write any more, however late it resumes.

All times are those of the database's clock. Epoch 0 is that of a record that no dispatcher has led yet.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import ColumnElement, Connection, Double, func, literal_column, or_, select, update

from gpuq.adapters.store.contract import Leader
from gpuq.adapters.store.schema import leadership
from gpuq.errors import Conflict

OVERTAKEN_FIX: Final = "Nothing needs to be done: this one continues as a standby. `gpuq doctor` names the leader."

# Unix time of this statement, not of the transaction's begin: it may have waited for the row.
_NOW: Final[dict[str, ColumnElement[float]]] = {
    "sqlite": literal_column("((julianday('now') - 2440587.5) * 86400.0)", Double()),
    "postgresql": literal_column("CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS double precision)", Double()),
}
_COLUMNS = leadership.c


def take(connection: Connection, holder: str, lease_s: float) -> int | None:
    """Take the leadership if it is free: the new epoch, or None.

    It is free if it was released, if `holder` had it before, or if it was not renewed for `lease_s` seconds. A renewal that lies
    so far in the future was made before the clock was set back, and counts as an old one.
    """
    now = _NOW[connection.dialect.name]
    is_free = or_(_COLUMNS.holder.is_(None), _COLUMNS.holder == holder, func.abs(now - _COLUMNS.renewed_at) > lease_s)
    taken = update(leadership).where(is_free).values(epoch=_COLUMNS.epoch + 1, holder=holder, renewed_at=now)
    if connection.execute(taken).rowcount == 0:
        return None
    return read(connection).epoch


def renew(connection: Connection, epoch: int) -> None:
    """Renew the lease of this epoch. Raises Conflict if another dispatcher has taken the leadership since."""
    renewed = update(leadership).where(_COLUMNS.epoch == epoch).values(renewed_at=_NOW[connection.dialect.name])
    if connection.execute(renewed).rowcount == 0:
        raise overtaken(epoch, read(connection))


def release(connection: Connection, epoch: int) -> None:
    """Let the next dispatcher lead at once; does nothing if another one leads already."""
    connection.execute(update(leadership).where(_COLUMNS.epoch == epoch).values(holder=None))


def read(connection: Connection) -> Leader:
    """Which dispatcher leads, and when it last renewed its lease."""
    age = _NOW[connection.dialect.name] - _COLUMNS.renewed_at
    epoch, holder, renewed_s_ago = connection.execute(select(_COLUMNS.epoch, _COLUMNS.holder, age)).one()
    return Leader(epoch=epoch, holder=holder, renewed_s_ago=renewed_s_ago)


def overtaken(epoch: int, leader: Leader) -> Conflict:
    """The error of a dispatcher that led in `epoch` and does not lead any more."""
    who = "Another dispatcher" if leader.holder is None else f"The dispatcher {leader.holder}"
    sentence = f"{who} has taken over, in epoch {leader.epoch}; this one led in epoch {epoch} and wrote nothing since."
    return Conflict(sentence, fix=OVERTAKEN_FIX)
