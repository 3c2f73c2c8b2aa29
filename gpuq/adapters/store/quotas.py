"""Quotas in the record: read them, and check them before a job is added.

A submission is checked in its own transaction, which holds the lock on `numbers`: of two that come at once, the second counts
the jobs of the first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from sqlalchemy import ColumnElement, Connection, func, select, text

from gpuq.adapters.store.rows import quota_row
from gpuq.adapters.store.schema import WAITS, jobs, quotas
from gpuq.core.state.quota import Account, Quota, Quotas, QuotaScope, accounts, quota_of
from gpuq.errors import OverQuota
from gpuq.messages.job_record import JobRecord


def read(connection: Connection) -> list[Quota]:
    """All quotas, by account."""
    rows = connection.execute(select(quotas).order_by(quotas.c.scope, quotas.c.name))
    return [quota_row(row) for row in rows]


def check(connection: Connection, records: Iterable[JobRecord]) -> None:
    """Raises OverQuota if these new jobs may not be added."""
    found = {quota.account: quota for quota in read(connection)}
    if found:
        refuse_beyond(found, records, lambda account: _count_waiting(connection, account))


def refuse_beyond(found: Quotas, records: Iterable[JobRecord], count_waiting: Callable[[Account], int]) -> None:
    """Raises OverQuota where new jobs are more than may wait, or one wants more devices than it could ever have."""
    new: Counter[Account] = Counter()
    for record in records:
        for account in accounts(record.owner, record.submission.project):
            new[account] += record.job_count
            quota = quota_of(account, found)
            most = None if quota is None else quota.running_devices
            if most is not None and record.submission.gpus > most:
                raise OverQuota(
                    f"The job asks for {record.submission.gpus} devices; {_whose(account)} may have {most} at a time.",
                    fix=f"Ask for at most {most} with `--gpus`, or ask an admin for a larger quota.",
                )
    for account, count in new.items():
        quota = quota_of(account, found)
        if quota is None or quota.waiting_jobs is None:
            continue
        waiting, most = count_waiting(account), quota.waiting_jobs
        if waiting + count > most:
            raise OverQuota(
                f"{_whose(account, first=True)} has {waiting} waiting jobs; {count} more would exceed the quota of {most}.",
                fix="Submit again when fewer wait, cancel some, or ask an admin for a larger quota: `gpuq quota` shows it.",
            )


def _whose(account: Account, *, first: bool = False) -> str:
    words = f"{account.scope.value} {account.name}"
    return words[0].upper() + words[1:] if first else words


def _count_waiting(connection: Connection, account: Account) -> int:
    column: ColumnElement[str] = jobs.c.owner if account.scope is QuotaScope.USER else jobs.c.project
    return int(connection.execute(select(func.count()).where(text(f"({WAITS})"), column == account.name)).scalar_one())
