"""Quotas: how much a user or a project may have at a time, and within a window of time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

HOUR_S = 3600.0
LONGEST_WINDOW_S = 92 * 86_400.0
"""No window is longer: what was used before is not kept."""
EVERYONE = "*"
"""The name in the quota of all users, or all projects, that have none of their own."""


class QuotaScope(StrEnum):
    """What a quota limits."""

    USER = "user"
    PROJECT = "project"


class Account(NamedTuple):
    """A user or a project, as its use is counted."""

    scope: QuotaScope
    name: str


@dataclass(frozen=True, slots=True)
class Quota:
    """The limits of one account, or with the name EVERYONE of each that has no quota of its own; None is no limit.

    `running_devices`: of all its attempts together; a device counts once for each. `waiting_jobs` includes held ones.
    `device_hours` within the last `window_s` seconds.
    """

    account: Account
    running_devices: int | None = None
    waiting_jobs: int | None = None
    device_hours: float | None = None
    window_s: float = 7 * 86_400.0


Quotas = Mapping[Account, Quota]


def accounts(owner: str, project: str | None) -> tuple[Account, ...]:
    """The accounts that a job of this owner and project is counted for."""
    user = Account(QuotaScope.USER, owner)
    return (user,) if project is None else (user, Account(QuotaScope.PROJECT, project))


def quota_of(account: Account, quotas: Quotas) -> Quota | None:
    """The quota that applies to an account."""
    return quotas.get(account) or quotas.get(Account(account.scope, EVERYONE))


# --- device-time by the hour ----------------------------------------------------------------------------------------

Hours = dict[int, float]
"""Device-seconds by the hour in which they were had; hours are counted since 1970."""


def add_served(hours: Hours, began: float, ended: float, devices: int) -> None:
    """Add the time of an attempt that had so many devices, and drop what is older than any window.

    To look at all hours for each attempt would take a takeover minutes: it adds the attempts of three months. The oldest come
    first, but for those that an attempt of many hours added late; these are dropped a little later.
    """
    hour = int(began // HOUR_S)
    while hour * HOUR_S < ended:
        seconds = min(ended, (hour + 1) * HOUR_S) - max(began, hour * HOUR_S)
        hours[hour] = hours.get(hour, 0.0) + seconds * devices
        hour += 1
    first = _first_within(LONGEST_WINDOW_S, ended)
    while (oldest := next(iter(hours), first)) < first:
        del hours[oldest]


def served_within(hours: Hours, window_s: float, now: float) -> float:
    """Device-seconds of the hours of which a part lies within the window."""
    first = _first_within(window_s, now)
    return sum([seconds for hour, seconds in hours.items() if hour >= first])


def falls_below(hours: Hours, running_s: float, limit_s: float, window_s: float, now: float) -> float | None:
    """When the device-seconds within the window fall below the limit because old hours leave it; None if that is not enough.

    `running_s` is what running attempts have had so far. It is taken to stay.
    """
    left, first = served_within(hours, window_s, now) + running_s, _first_within(window_s, now)
    for hour in sorted(hour for hour in hours if hour >= first):
        left -= hours[hour]
        if left < limit_s:
            return (hour + 1) * HOUR_S + window_s
    return None


def _first_within(window_s: float, now: float) -> int:
    """The first hour of which a part lies within the window."""
    return int((now - window_s) // HOUR_S)


def flat(served: Mapping[Account, Hours]) -> Iterator[tuple[QuotaScope, str, int, float]]:
    """The device-seconds of each account and hour, as a sequence that JSON can hold."""
    return (
        (account.scope, account.name, hour, seconds)
        for account, hours in served.items()
        for hour, seconds in hours.items()
    )


def from_flat(rows: Iterable[tuple[QuotaScope, str, int, float]]) -> dict[Account, Hours]:
    """What `flat` was given."""
    served: dict[Account, Hours] = {}
    for scope, name, hour, seconds in rows:
        served.setdefault(Account(scope, name), {})[hour] = seconds
    return served
