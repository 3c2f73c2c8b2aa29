"""What happened on devices between two reports of their host: errors of the driver, lowered clocks, pauses for measuring.

A report says what is so now, or how often something has been so far. So each has the time of the first report that shows it,
which is a second late at most while the host is heard. Errors and pauses before the first report to this process have no known
time and are left out. What comes again within `_JOINED_S` is one mark, because clocks that are lowered come and go every few
seconds.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from gpuq.adapters.store.row_types import DeviceMark, MarkKind
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.device import DeviceId, HostId
from gpuq.core.state.events import HostReported
from gpuq.core.state.state import State

_JOINED_S = 60.0
_WRITTEN_EVERY_S = 60.0
# A host that sends nonsense fills the record only so fast.
_MOST_OPEN, _MOST_TIMES, _LONGEST_DETAIL = 32, 1_000_000, 64
_set = msgspec.structs.replace

_What = tuple[DeviceId, MarkKind, str]


@dataclass
class _Seen:
    """What the last report of a host showed."""

    instance: str | None = None
    xids: Counter[tuple[DeviceId, int]] = field(default_factory=Counter)
    lowered: set[tuple[DeviceId, str]] = field(default_factory=set)
    blinks: Counter[AttemptId] = field(default_factory=Counter)


@dataclass
class _Open:
    """A mark that may still go on, and when it was last to be written."""

    mark: DeviceMark
    written_at: float
    is_written: bool = True


class DeviceMarks:
    """Compares the reports of each host. Times are wall time."""

    def __init__(self) -> None:
        self._before: dict[HostId, _Seen] = {}
        self._open: dict[HostId, dict[_What, _Open]] = defaultdict(dict)

    def note(self, report: HostReported, state: State, at: float) -> list[DeviceMark]:
        """The marks to be written after this report, which was sent at `at`."""
        seen, before = _seen(report), self._before.get(report.host)
        self._before[report.host] = seen
        opened = self._open[report.host]
        written = []
        for what, one in list(opened.items()):
            if at - one.mark.until_at > _JOINED_S:
                del opened[what]
                if not one.is_written:
                    written.append(one.mark)
        for what, count in _new(seen, before, state):
            mark = self._mark(opened, what, count, at)
            if mark is not None:
                written.append(mark)
        for one in opened.values():
            if not one.is_written and at - one.written_at >= _WRITTEN_EVERY_S:
                one.is_written, one.written_at = True, at
                written.append(one.mark)
        return written

    def forget(self, host: HostId) -> None:
        """The host is gone."""
        self._before.pop(host, None)
        self._open.pop(host, None)

    def _mark(self, opened: dict[_What, _Open], what: _What, count: int, at: float) -> DeviceMark | None:
        """Open a mark, and return it; or add to the one that is open."""
        device, kind, detail = what
        one = opened.get(what)
        if one is not None and kind is not MarkKind.BLINK:
            one.mark = _set(one.mark, until_at=at, count=min(_MOST_TIMES, one.mark.count + count))
            one.is_written = False
            return None
        if one is None and sum(device == other for other, _, _ in opened) >= _MOST_OPEN:
            return None
        times = min(_MOST_TIMES, max(1, count))
        mark = DeviceMark(device=device, kind=kind, detail=detail, from_at=at, until_at=at, count=times)
        opened[what] = _Open(mark, at)
        return mark


def _new(seen: _Seen, before: _Seen | None, state: State) -> Iterator[tuple[_What, int]]:
    """What a report shows that is to be marked, with how often it occurred since the report before; 0 if it only continues."""
    for device, reason in sorted(seen.lowered):
        began = before is None or (device, reason) not in before.lowered
        yield (device, MarkKind.LOWERED_CLOCKS, reason), int(began)
    if before is None:
        return
    # A worker service that began since then has counted from 0.
    xids = before.xids if before.instance == seen.instance else Counter[tuple[DeviceId, int]]()
    for (device, xid), count in (seen.xids - xids).items():
        yield (device, MarkKind.XID, str(xid)), count
    for attempt, count in (seen.blinks - before.blinks).items():
        if attempt in state.attempts:
            yield (state.attempts[attempt].devices[0], MarkKind.BLINK, str(attempt.job)), count


def _seen(report: HostReported) -> _Seen:
    seen = _Seen(report.instance)
    for device, reading in report.readings:
        vitals = reading.vitals
        if vitals is not None:
            seen.xids.update({(device, xid): count for xid, count in vitals.xids or ()})
            seen.lowered.update((device, reason[:_LONGEST_DETAIL]) for reason in vitals.throttling or ())
    seen.blinks.update({one.attempt: one.blinks for one in report.residents if one.blinks})
    return seen
