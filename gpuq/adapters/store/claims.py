"""Claims of attempts, and the lease of a host's name, which a claim needs. Each call is within the transaction of the caller."""

from __future__ import annotations

from sqlalchemy import Connection, between, bindparam, func, not_, or_, select, update

from gpuq.adapters.store import cycle
from gpuq.adapters.store.array_records import ArrayRecords
from gpuq.adapters.store.clock import UnixTime
from gpuq.adapters.store.row_types import LEASE_S, Claim, NameLease
from gpuq.adapters.store.rows import JOB_COLUMNS, arrays_of, from_json, job_row
from gpuq.adapters.store.schema import attempts, host_leases, job_records, jobs
from gpuq.core.state.attempt import Attempt, AttemptId
from gpuq.core.state.job import JobState
from gpuq.messages.codec import decoded
from gpuq.messages.job_record import JobRecord

# Made once: to make these takes a third of a claim, which every start waits for.
_CLAIM = (
    update(attempts)
    .where(
        *cycle.ONE_ATTEMPT,
        attempts.c.host == bindparam("there"),
        attempts.c.claimed_at.is_(None),
        attempts.c.ended_at.is_(None),
        attempts.c.revoked_at.is_(None),
        # The attempts of earlier starts have lower numbers, the further ones of a gang higher ones.
        select(jobs.c.id)
        .where(
            jobs.c.id == bindparam("of_job"),
            jobs.c.state == JobState.STARTING.value,
            jobs.c.attempt <= bindparam("of_number"),
        )
        .exists(),
        # Another instance has the lease of the host's name.
        not_(
            select(host_leases.c.host)
            .where(host_leases.c.host == bindparam("there"), host_leases.c.instance != bindparam("its"))
            .exists()
        ),
    )
    .values(claimed_at=bindparam("at"), boot_id=bindparam("boot"), instance=bindparam("its"))
)
_CLAIMED = (
    select(attempts.c.launch, *JOB_COLUMNS)
    .join(jobs, jobs.c.id == attempts.c.job)
    .outerjoin(job_records, job_records.c.job == attempts.c.job)
    .where(*cycle.ONE_ATTEMPT)
)


def claim(  # noqa: PLR0913 - a claim says who makes it, where and when
    connection: Connection,
    attempt: AttemptId,
    host: str,
    instance: str,
    boot_id: str,
    at: float,
    *,
    arrays: ArrayRecords,
) -> tuple[JobRecord, Attempt] | None:
    """The fenced start: what was submitted and launched, or None if the attempt may not start there. See `Store.claim`."""
    mine = cycle.of_attempt(attempt)
    # One conditional UPDATE is the fence: of several claims only the first changes a row. The update and the read are one
    # transaction, so the spec is that of exactly the attempt whose row was claimed.
    if connection.execute(_CLAIM, {**mine, "there": host, "its": instance, "at": at, "boot": boot_id}).rowcount != 1:
        return None
    row = connection.execute(_CLAIMED, mine).one()
    launch, *job = row
    record = job_row(job, arrays.read(connection, arrays_of([row]))).record
    return record, decoded(from_json(launch)["attempt"], Attempt)


def revoke(connection: Connection, attempt: AttemptId, at: float) -> Claim | None:
    """Take back the order to start an attempt; its claim if there is one, and then nothing was taken back."""
    mine = (attempts.c.job == attempt.job, attempts.c.number == attempt.number)
    unclaimed = update(attempts).where(*mine, attempts.c.claimed_at.is_(None))
    if connection.execute(unclaimed.values(revoked_at=func.coalesce(attempts.c.revoked_at, at))).rowcount == 1:
        return None
    claimed = (
        select(attempts.c.instance, host_leases.c.instance.label("holder"))
        .outerjoin(host_leases, host_leases.c.host == attempts.c.host)
        .where(*mine)
    )
    row = connection.execute(claimed).first()
    return None if row is None else Claim(instance=row.instance, holder=row.holder)


def lease_host(connection: Connection, host: str, instance: str) -> NameLease:
    """Take or renew the lease of a host's name, if it is free or ours; and which instance has it now."""
    this, now = host_leases.c.host == host, _now(connection)
    # Also free is a lease from the future: then the database's clock was set back.
    is_free = not_(between(host_leases.c.renewed_at, now - LEASE_S, now + LEASE_S))
    renewed = update(host_leases).where(this, or_(host_leases.c.instance == instance, is_free))
    if connection.execute(renewed.values(instance=instance, renewed_at=now)).rowcount == 0:
        new = {"host": host, "instance": instance, "renewed_at": now}
        cycle.insert_rows(connection, host_leases, [new], replace=False)
    row = connection.execute(select(host_leases).where(this)).one()
    return NameLease(instance=row.instance, renewed_at=row.renewed_at)


def _now(connection: Connection) -> float:
    return float(connection.execute(select(UnixTime())).scalar_one())
