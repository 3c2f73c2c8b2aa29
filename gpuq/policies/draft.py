"""Draws up the assignment problem of one pass from the board.

Arrives: the board, the jobs that a plan is wanted for, the places it may use, and what is known of pairs. Leaves: a `Batch`.
Jobs that are alike to admission are asked about once per place. Ignores `most_devices`: a gang gets as many devices as it asks
for at least; of a host's devices, idle ones first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import median

import numpy as np

from gpuq.core.admit import Place, admit, needed_memory
from gpuq.core.attempt import Attempt
from gpuq.core.board import Board
from gpuq.core.index import Sort, sort_of
from gpuq.core.device import Device, HostId
from gpuq.core.forecast import Forecast
from gpuq.core.job import Job, JobId
from gpuq.policies.batch import NOBODY, Batch, Indices, Numbers, Seat
from gpuq.policies.pairing import Needs, Newcomer, PairBook, slowdown_beside, slowdown_of

_GIB = 2**30
_SHORTEST_S = 60.0
_UNKNOWN_S = 3600.0
_PRIORITY = 10.0
_MOST_LEVELS = 4
# Pairs beyond these, the least valuable of one kind of idle device, are left out: they would only make a plan late.
_MOST_PAIRS = 20_000

Foretold = Mapping[JobId, Forecast]


def draft(
    board: Board, jobs: Sequence[Job], places: Iterable[Place], book: PairBook, foretold: Foretold | None = None
) -> Batch:
    """The batch of these jobs and places; `foretold` has the forecasts of jobs that the board knows none of, as running ones."""
    return _Draft(board, jobs, places, book, foretold or {}).batch()


def foremost(jobs: Iterable[Job], most: int) -> list[Job]:
    """The jobs to plan for: the highest priority first, then the longest waiting."""
    return sorted(jobs, key=lambda job: (-job.priority, job.submitted_at, job.id))[:most]


@dataclass(frozen=True)
class _Offer:
    """A place for gangs: the seats that it is of, what each job brings there, and what residents lose by it (both n)."""

    place: Place
    seats: tuple[int, ...]
    brought: Numbers
    lost: Numbers


class _Draft:
    """The batch in the making: options are gathered as columns, and turned into arrays at the end."""

    def __init__(
        self, board: Board, jobs: Sequence[Job], places: Iterable[Place], book: PairBook, foretold: Foretold
    ) -> None:
        self._board, self._jobs, self._book, self._foretold = board, jobs, book, foretold
        open_places = [place for place in places if place.reading is not None and not board.given(place.device.id)]
        self._idle = _alike(place for place in open_places if not place.residents)
        self._busy = [place for place in open_places if _joinable(place, board)]
        sorts = {sort_of(place.device): place.device for place in open_places}
        self._newcomers = {
            sort: [Newcomer(job, self._alone(job, device)) for job in jobs] for sort, device in sorts.items()
        }
        self._weights = _weights(jobs, [a for place in self._busy for a in place.residents], board)
        self._usual_s = _usual_duration(n.forecast for newcomers in self._newcomers.values() for n in newcomers)
        self._rates = {sort: self._rates_on(sort) for sort in sorts}
        self._single = np.array([job.device_count == 1 for job in jobs], dtype=np.bool_)
        self._seats: list[Seat] = []
        self._capacity: list[int] = []
        self._columns = _Columns(len(jobs))

    def batch(self) -> Batch:
        groups = {key: self._add_seat(Seat(tuple(p.device for p in group), True)) for key, group in self._idle.items()}
        for key, group in self._idle.items():
            self._add_alone(group, groups[key])
        beside = [self._add_beside(place) for place in self._busy]
        self._add_gangs(groups, beside)
        options = self._columns.whole()
        return Batch(
            jobs=tuple(self._jobs),
            seats=tuple(self._seats),
            value=options.value,
            worth=options.worth,
            first=options.first,
            second=options.second,
            devices=options.devices,
            rows=options.rows,
            counts=options.counts,
            room=np.array([1] * len(self._jobs) + self._capacity, dtype=np.intp),
            weight=np.array([self._weights[job.priority] for job in self._jobs], dtype=np.float64),
            job_features=self._job_features(),
            seat_features=self._seat_features(),
        )

    # --- options --------------------------------------------------------------------------------------------------

    def _add_alone(self, group: Sequence[Place], seat: int) -> None:
        """Each single job alone on one of these idle devices, and each two of them together."""
        place, sort = group[0], sort_of(group[0].device)
        newcomers, rates = self._newcomers[sort], self._rates[sort]
        kinds, kind_of = _classes(newcomers)
        allowed = np.array(
            [admit(n.job, n.forecast, place, self._board.limits).admitted for n in kinds], dtype=np.bool_
        )
        alone = np.flatnonzero(self._single & allowed[kind_of]) if len(kinds) else np.empty(0, dtype=np.intp)
        self._columns.add_alone(rates[alone], 0.0, alone, seat)
        first, second, worth = self._pairs(alone, rates, kinds, kind_of, place)
        self._columns.add_pairs(worth, first, second, seat)

    def _pairs(
        self, alone: Indices, rates: Numbers, kinds: Sequence[Newcomer], kind_of: Indices, place: Place
    ) -> tuple[Indices, Indices, Numbers]:
        """(who starts, who joins, what each brings) of each pair that is worth more than the better of the two alone."""
        costs = np.full((len(kinds), len(kinds), 2), np.nan)
        present = np.unique(kind_of[alone])
        if self._board.limits.residents_per_device > 1:
            for a in present:
                for b in present:
                    found = self._book.together(kinds[a], kinds[b], place, self._board.limits)
                    if found is not None:
                        costs[a, b] = found
        # The better of two starts, and the other joins it.
        ordered = alone[np.argsort(-rates[alone], kind="stable")]
        one, other = np.triu_indices(len(ordered), 1)
        first, second = ordered[one], ordered[other]
        slowdowns = costs[kind_of[first], kind_of[second]]
        both = np.column_stack((rates[first], rates[second])) / slowdowns
        value = both.sum(axis=1)
        worth = np.flatnonzero(value > rates[first])  # unknown is NaN, and compares as no
        if len(worth) > _MOST_PAIRS:
            worth = np.sort(worth[np.argsort(-value[worth], kind="stable")[:_MOST_PAIRS]])
        return first[worth], second[worth], both[worth]

    def _add_beside(self, place: Place) -> _Offer:
        """Each single job beside who is there; leaves what each job of the batch, gangs too, would bring and cost there."""
        sort = sort_of(place.device)
        newcomers, rates = self._newcomers[sort], self._rates[sort]
        kinds, kind_of = _classes(newcomers)
        speeds, losses = np.full(len(kinds), np.nan), np.zeros(len(kinds))
        for index, newcomer in enumerate(kinds):
            found = self._join(newcomer.job, place)
            if found is not None:
                speeds[index], losses[index] = found
        brought, lost = rates * speeds[kind_of], losses[kind_of]
        seat = self._add_seat(Seat((place.device,), False))
        joining = np.flatnonzero(self._single & (brought > lost))
        self._columns.add_alone(brought[joining], lost[joining], joining, seat)
        return _Offer(place, (seat,), brought, lost)

    def _join(self, job: Job, place: Place) -> tuple[float, float] | None:
        """(the newcomer's speed, what the residents lose) if admission allows it beside them."""
        forecast = self._board.forecast(job, place)
        self._book.note(job.kind, sort_of(place.device), forecast)
        if not admit(job, forecast, place, self._board.limits).admitted:
            return None
        loss = sum(self._rate_of(a) * (1 - 1 / slowdown_of(a, forecast)) for a in place.residents)
        return 1 / slowdown_beside(forecast), loss

    def _add_gangs(self, groups: Mapping[object, int], beside: Sequence[_Offer]) -> None:
        gangs = [index for index, job in enumerate(self._jobs) if job.device_count > 1]
        if not gangs:
            return
        hosts: dict[HostId, list[_Offer]] = {}
        for key, group in self._idle.items():
            for host, places in _by_host(group).items():
                seat = self._add_seat(Seat(tuple(place.device for place in places), True))
                brought = self._rates[sort_of(places[0].device)]
                offers = (_Offer(place, (groups[key], seat), brought, np.zeros(len(brought))) for place in places)
                hosts.setdefault(host, []).extend(offers)
        for offer in beside:
            hosts.setdefault(offer.place.device.host, []).append(offer)
        for index in gangs:
            for offered in hosts.values():
                self._add_gang(index, offered)

    def _add_gang(self, index: int, offered: Sequence[_Offer]) -> None:
        """The gang on the first devices of one host that it may have: as fast as on its slowest."""
        count = self._jobs[index].device_count
        taken = list(islice((offer for offer in offered if self._gang_may(index, offer)), count))
        if len(taken) < count:
            return
        brought = min(float(offer.brought[index]) for offer in taken)
        lost = sum(float(offer.lost[index]) for offer in taken)
        if brought > lost:
            self._columns.add_gang(
                brought, lost, index, count, Counter(seat for offer in taken for seat in offer.seats)
            )

    def _gang_may(self, index: int, offer: _Offer) -> bool:
        if offer.place.residents:
            return bool(offer.brought[index] > offer.lost[index])  # refused is NaN, and compares as no
        newcomer = self._newcomers[sort_of(offer.place.device)][index]
        return admit(newcomer.job, newcomer.forecast, offer.place, self._board.limits).admitted

    def _add_seat(self, seat: Seat) -> int:
        self._seats.append(seat)
        self._capacity.append(len(seat.devices))
        return len(self._seats) - 1

    # --- what they are worth --------------------------------------------------------------------------------------

    def _alone(self, job: Job, device: Device) -> Forecast:
        return self._foretold.get(job.id) or self._board.forecast_alone(job, device)

    def _rates_on(self, sort: Sort) -> Numbers:
        """Weighted completions per hour of each job alone on one sort of device (n)."""
        durations = [n.forecast.duration_p50_s or self._usual_s for n in self._newcomers[sort]]
        weights = [self._weights[job.priority] for job in self._jobs]
        return 3600.0 * np.array(weights) / np.maximum(np.array(durations, dtype=np.float64), _SHORTEST_S)

    def _rate_of(self, resident: Attempt) -> float:
        duration = max(resident.forecast.duration_p50_s or self._usual_s, _SHORTEST_S)
        return 3600.0 * self._weights[self._board.state.jobs[resident.id.job].priority] / duration

    def _job_features(self) -> Numbers:
        forecasts = next(iter(self._newcomers.values()), [Newcomer(job, Forecast()) for job in self._jobs])
        rows = [(*_plain(n), n.job.device_count, self._board.now - n.job.submitted_at) for n in forecasts]
        return np.array(rows, dtype=np.float64).reshape(len(self._jobs), 5)

    def _seat_features(self) -> Numbers:
        committed = (self._board.place(seat.devices[0].id).committed_utilization for seat in self._seats)
        rows = [(len(seat.devices), seat.idle, load) for seat, load in zip(self._seats, committed, strict=True)]
        return np.array(rows, dtype=np.float64).reshape(len(self._seats), 3)


@dataclass(frozen=True)
class _Piece:
    """Some options, as `Batch` has them."""

    value: Numbers
    worth: Numbers
    first: Indices
    second: Indices
    devices: Indices
    rows: Indices
    counts: Indices


class _Columns:
    """Options as they are gathered, in pieces; n jobs come first among the rows."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._pieces: list[_Piece] = []
        self._add(np.empty(0), np.empty((0, 2)), np.empty(0, np.intp), np.empty(0, np.intp), 0)

    def add_alone(self, worth: Numbers, loss: float | Numbers, first: Indices, seat: int) -> None:
        """One job each, on one device of one seat."""
        both = np.zeros((len(worth), 2))
        both[:, 0] = worth
        self._add(worth - loss, both, first, np.full(len(first), NOBODY, np.intp), seat)

    def add_pairs(self, worth: Numbers, first: Indices, second: Indices, seat: int) -> None:
        """Two jobs each, on one device of one seat."""
        self._add(worth.sum(axis=1), worth, first, second, seat)

    def add_gang(self, worth: float, loss: float, job: int, devices: int, uses: Mapping[int, int]) -> None:
        """One job on several devices."""
        one = np.ones(1, dtype=np.intp)
        rows = np.array([[job, *(self._jobs + seat for seat in uses)]], dtype=np.intp)
        counts = np.array([[1, *uses.values()]], dtype=np.intp)
        value, parts = np.array([worth - loss]), np.array([[worth, 0.0]])
        self._pieces.append(_Piece(value, parts, one * job, one * NOBODY, one * devices, rows, counts))

    def whole(self) -> _Piece:
        """All pieces together."""
        width = max(piece.rows.shape[1] for piece in self._pieces)
        return _Piece(
            value=np.concatenate([piece.value for piece in self._pieces]),
            worth=np.concatenate([piece.worth for piece in self._pieces]),
            first=np.concatenate([piece.first for piece in self._pieces]),
            second=np.concatenate([piece.second for piece in self._pieces]),
            devices=np.concatenate([piece.devices for piece in self._pieces]),
            rows=np.concatenate([_padded(piece.rows, width) for piece in self._pieces]),
            counts=np.concatenate([_padded(piece.counts, width) for piece in self._pieces]),
        )

    def _add(self, value: Numbers, worth: Numbers, first: Indices, second: Indices, seat: int) -> None:
        m = len(value)
        if self._pieces and not m:
            return
        rows = np.empty((m, 3), dtype=np.intp)
        rows[:, 0], rows[:, 1], rows[:, 2] = first, np.maximum(second, 0), self._jobs + seat
        counts = np.ones((m, 3), dtype=np.intp)
        counts[:, 1] = second != NOBODY
        self._pieces.append(_Piece(value, worth, first, second, np.ones(m, dtype=np.intp), rows, counts))


def _padded(array: Indices, width: int) -> Indices:
    if array.shape[1] == width:
        return array
    wide = np.zeros((len(array), width), dtype=np.intp)
    wide[:, : array.shape[1]] = array
    return wide


def _joinable(place: Place, board: Board) -> bool:
    return 0 < len(place.residents) < board.limits.residents_per_device and all(a.shares for a in place.residents)


def _alike(places: Iterable[Place]) -> dict[object, list[Place]]:
    """Idle places by what makes them get the same answers, foreign memory to the GiB; the fullest of each first."""
    found: dict[object, list[Place]] = {}
    for place in sorted(places, key=lambda p: -p.committed_memory):
        foreign = place.reading.foreign_utilization_pct if place.reading else None
        key = sort_of(place.device), place.device.total_memory, -(-place.committed_memory // _GIB), foreign
        found.setdefault(key, []).append(place)
    return found


def _by_host(places: Iterable[Place]) -> dict[HostId, list[Place]]:
    found: dict[HostId, list[Place]] = {}
    for place in places:
        found.setdefault(place.device.host, []).append(place)
    return found


def _classes(newcomers: Sequence[Newcomer]) -> tuple[list[Newcomer], Indices]:
    """(one newcomer of each class, the class of each): the same class gets the same verdicts."""
    numbers: dict[Needs, int] = {}
    kinds: list[Newcomer] = []
    for newcomer in newcomers:
        if newcomer.needs not in numbers:
            numbers[newcomer.needs] = len(kinds)
            kinds.append(newcomer)
    return kinds, np.array([numbers[newcomer.needs] for newcomer in newcomers], dtype=np.intp)


def _weights(jobs: Sequence[Job], residents: Sequence[Attempt], board: Board) -> dict[int, float]:
    priorities = {job.priority for job in jobs} | {board.state.jobs[a.id.job].priority for a in residents}
    return {priority: _PRIORITY ** min(level, _MOST_LEVELS) for level, priority in enumerate(sorted(priorities))}


def _usual_duration(forecasts: Iterable[Forecast]) -> float:
    known = [forecast.duration_p50_s for forecast in forecasts if forecast.duration_p50_s is not None]
    return median(known) if known else _UNKNOWN_S


def _plain(newcomer: Newcomer) -> tuple[float, float, float]:
    forecast, memory = newcomer.forecast, needed_memory(newcomer.job, newcomer.forecast)
    values = forecast.duration_p50_s, forecast.peak_utilization_pct, None if memory is None else memory / _GIB
    return tuple(float("nan") if value is None else float(value) for value in values)  # type: ignore[return-value]
