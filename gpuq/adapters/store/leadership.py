"""The leadership of the dispatchers: a lease in a table of one row, and the fence of every commit.

Taking the leadership raises `epoch`. A commit names the epoch of its dispatcher; its first statement renews the lease where that
epoch is still the current one, and if it changes no row, nothing of the commit is kept. So renewal and fence are one statement,
and a dispatcher that was suspended while another took over cannot write any more, however late it resumes.

All times are those of the database's clock. Epoch 0 is that of a record that no dispatcher has led yet.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, bindparam, case, func, or_, select, update

from gpuq.adapters.store.clock import UnixTime
from gpuq.adapters.store.row_types import Leader
from gpuq.adapters.store.schema import leadership
from gpuq.adapters.store.suspension import ENDED_IF_SUSPENDED
from gpuq.errors import Conflict

_OVERTAKEN_FIX: Final = "Nothing needs to be done: this one is started again, as a standby."

_COLUMNS = leadership.c
_AGE = UnixTime() - _COLUMNS.renewed_at
_IS_FREE = or_(
    _COLUMNS.holder.is_(None),
    _COLUMNS.holder == bindparam("taker"),
    # A renewal far in the future was made before the clock was set back: it counts as an old one.
    func.abs(_AGE) > bindparam("lease_s"),
)
_TAKE = (
    update(leadership)
    .where(_IS_FREE, ENDED_IF_SUSPENDED)
    .values(
        epoch=case((_COLUMNS.epoch < bindparam("above"), bindparam("above")), else_=_COLUMNS.epoch) + 1,
        holder=bindparam("taker"),
        renewed_at=UnixTime(),
    )
)
_MINE = _COLUMNS.epoch == bindparam("mine")
_RENEW = update(leadership).where(_MINE, ENDED_IF_SUSPENDED).values(renewed_at=UnixTime())
_RELEASE = update(leadership).where(_MINE, ENDED_IF_SUSPENDED).values(holder=None)
_READ = select(_COLUMNS.epoch, _COLUMNS.holder, _AGE, _COLUMNS.order_key, _COLUMNS.first_attempt)


def take(connection: Connection, holder: str, lease_s: float, above: int = 0) -> int | None:
    """Take the leadership if it is free: the new epoch, which is higher than `above`, or None.

    It is free if it was released, if `holder` had it before, or if it was not renewed for `lease_s` seconds.
    """
    values = {"taker": holder, "lease_s": lease_s, "above": above}
    if connection.execute(_TAKE, values).rowcount == 0:
        return None
    return read(connection).epoch


def renew(connection: Connection, epoch: int) -> None:
    """Renew the lease of this epoch. Raises Conflict if another dispatcher has taken the leadership since."""
    if connection.execute(_RENEW, {"mine": epoch}).rowcount == 0:
        raise overtaken(epoch, read(connection))


def release(connection: Connection, epoch: int) -> None:
    """Let the next dispatcher lead at once; does nothing if another one leads already."""
    connection.execute(_RELEASE, {"mine": epoch})


def share(connection: Connection, order_key: str | None, first_attempt: int | None) -> None:
    """Write what all dispatchers share; None changes nothing."""
    values = {"order_key": order_key, "first_attempt": first_attempt}
    if given := {name: value for name, value in values.items() if value is not None}:
        connection.execute(update(leadership).values(given))


def read(connection: Connection) -> Leader:
    """Which dispatcher leads, when it last renewed its lease, and what all dispatchers share."""
    epoch, holder, renewed_s_ago, order_key, first = connection.execute(_READ).one()
    return Leader(
        epoch=epoch, holder=holder, renewed_s_ago=renewed_s_ago, order_key=order_key, first_attempt=first or 1
    )


def overtaken(epoch: int, leader: Leader) -> Conflict:
    """The error of a dispatcher that led in `epoch` and does not lead any more."""
    name = "Another dispatcher" if leader.holder is None else f"The dispatcher {leader.holder}"
    sentence = f"{name} has taken over, in epoch {leader.epoch}. This one led in epoch {epoch}; its commit was refused."
    return Conflict(sentence, fix=_OVERTAKEN_FIX)
