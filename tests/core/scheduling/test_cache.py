"""The pass cache only saves time: with a cache of any age, and whatever was asked before, the same is decided."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from math import inf

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpuq.core.scheduling import cache as pass_cache
from gpuq.core.scheduling.cache import PassCache
from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.scheduling.decide import decide
from gpuq.core.scheduling.forecast_table import ForecastTable
from gpuq.core.scheduling.limits import Limits
from gpuq.core.scheduling.policy import Policy
from gpuq.core.state.actions import Action, Launch, Reserve, SetPendingReason
from gpuq.core.state.apply import apply
from gpuq.core.state.attempt import Ending
from gpuq.core.state.booking import Booking, BookingId
from gpuq.core.state.constraints import DeviceConstraints
from gpuq.core.state.device import Device, DeviceId, HostId
from gpuq.core.state.edit import edit_of
from gpuq.core.state.events import (
    BookingCancelled,
    BookingMade,
    CancelRequested,
    Event,
    HoldRequested,
    HostDrained,
    HostForgotten,
    HostReported,
    HostResumed,
    JobEdited,
    QuotaRemoved,
    QuotaSet,
    ReleaseRequested,
    Submitted,
)
from gpuq.core.state.forecast import BUDGETS, LEARNED, MEASURED, RULE, Forecast, PairCost, Question
from gpuq.core.state.job import JobId, KindId, Sharing
from gpuq.core.state.quota import EVERYONE, Account, Quota, QuotaScope, quota_of
from gpuq.core.state.state import State
from gpuq.core.state.validate import validate
from gpuq.core.state.verdict import Rule, Verdict
from gpuq.daemon.journal import Journal, from_snapshot, snapshot
from gpuq.messages.codec import from_plain
from gpuq.policies.lists import fifo, priority
from gpuq.policies.lists.packed import packed
from gpuq.settings import Scheduling
from tests.core.test_promises import hostile
from tests.support.nouns import GIB, a_device, a_forecast, a_job, a_reading, a_report, a_resident, a_start, an_exit
from tests.support.playbook import Playbook

CONSTRAINTS = [
    DeviceConstraints(types=("b",), least_memory=24 * GIB),
    DeviceConstraints(hosts=(HostId("h0"), HostId("h1"))),
    DeviceConstraints(excluded_hosts=(HostId("h0"),), features=(("fast",), ("tall", "wide"))),
    DeviceConstraints(devices=(DeviceId("h0/0"), DeviceId("h1/0"))),
]
KINDS = [f"kind{number}" for number in range(8)]


def deferring(rng: random.Random) -> Policy:
    """Packed, but some jobs are deferred for some passes."""

    def propose(context: SchedulingContext) -> Iterator[object]:
        for job in context.waiting:
            if rng.random() < 0.3:
                context.defer(job, Verdict(False, Rule.WAIT_LIMIT, None, (("expected_wait_s", 1.0),)))
        yield from packed(context)

    return propose  # type: ignore[return-value]


POLICIES: dict[str, Callable[[random.Random], Policy]] = {
    "packed": lambda rng: packed,
    "fifo": lambda rng: fifo.SPEC.make(Scheduling()),
    "preempting": lambda rng: priority.SPEC.make(Scheduling(preemption=True)),
    "deferring": deferring,
    "hostile": hostile,
}


class World:
    """Devices, jobs and forecasts that change at random. `answer` is what a predictor knows, the same for the same question."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.now = 1000.0
        self.limits = Limits(
            trials=True,
            residents_per_device=self.rng.choice((1, 2, 2, 3)),
            patience_s=self.rng.choice((60.0, 600.0)),
            patience_ratio=self.rng.choice((0.0, 2.0)),
            objective=self.rng.choice(("slowdown", "saving")),
            candidates_per_job=self.rng.choice((1, 2, 8)),
        )
        self.hosts = [
            tuple(
                a_device(f"h{host}/{number}", self.rng.choice((24, 80)), f"h{host}", self.rng.choice("AB"))
                for number in range(self.rng.choice((1, 2, 4, 8)))
            )
            for host in range(self.rng.randint(1, 3))
        ]
        self.forgets, self.books, self.edits = seed % 2 == 1, seed // 2 % 2 == 0, seed // 4 % 2 == 1
        self.salt = 0
        self.submitted = self.booked = 0
        self.state = State()

    def answer(self, question: Question) -> Forecast:
        rng = random.Random(f"{self.salt} {question}")
        kind = random.Random(f"{self.salt} {question.signature} {question.device_type}")
        if kind.random() < 0.2:
            return Forecast()
        pairs = tuple(self._cost(rng, beside) for beside in question.beside)
        return a_forecast(
            kind.uniform(5, 70),
            kind.uniform(1, 12),
            pairs=pairs,
            pairs_known=kind.random() < 0.7,
            duration_p50_s=kind.uniform(1, 300),
            duration_p90_s=kind.choice((None, 30.0, 400.0)),
        )

    def answers(self, questions: Iterable[Question]) -> dict[Question, Forecast]:
        return {question: self.answer(question) for question in questions}

    def _cost(self, rng: random.Random, beside: KindId) -> PairCost:
        newcomer, resident = rng.uniform(1, 1.3), rng.uniform(1, 1.3)
        evidence = rng.choice((MEASURED, LEARNED, RULE))
        risk = (rng.choice((0.05, 0.2)),) * len(BUDGETS)
        cost = PairCost(beside, newcomer, newcomer + 0.1, resident, resident + 0.1, rng.random() < 0.1, evidence)
        return replace(cost, risks=(risk, risk))

    def events(self) -> Iterator[Event]:
        """What happens before the next pass."""
        rng = self.rng
        self.now += rng.choice((0.0, 0.5, 1.0, 30.0, 200.0))
        for devices in list(self.hosts):
            if rng.random() < 0.8:
                yield self._report(devices)
        for _ in range(rng.choice((0, 1, 2, 4))):
            self.submitted += 1
            array, most_at_once = {0: (91, 1), 1: (92, None)}.get(self.submitted % 9, (None, None))
            yield Submitted(
                a_job(
                    self.submitted,
                    kind=rng.choice(KINDS),
                    submitted_at=self.now - rng.choice((0, 0, 500)),
                    owner=rng.choice(("ada", "bob")),
                    project=rng.choice((None, None, "vision")),
                    priority=rng.choice((0, 0, 0, 5)),
                    sharing=rng.choice((Sharing.AUTO, Sharing.AUTO, Sharing.AUTO, Sharing.NEVER)),
                    max_slowdown=rng.choice((None, None, 1.05)),
                    declared_memory=rng.choice((None, None, None, 30 * GIB, 100 * GIB)),
                    device_count=rng.choice((1, 1, 1, 2, 4)),
                    constraints=rng.choice((None, None, None, *CONSTRAINTS)) if self.books else None,
                    preemptible=rng.random() < 0.5,
                    array=array,
                    most_at_once=most_at_once,
                    time_limit_s=rng.choice((None, None, 20.0, 100.0)),
                )
            )
        for attempt in list(self.state.attempts.values()):
            if attempt.started_at is None and rng.random() < 0.8:
                yield a_start(attempt.id.job, attempt.id.number, at=self.now)
            elif attempt.stopping is not None:
                yield an_exit(attempt.id.job, Ending.STOPPED, 143, attempt.id.number)
            elif rng.random() < 0.15:
                ending = rng.choice((Ending.EXITED, Ending.EXITED, Ending.OUT_OF_MEMORY, Ending.LOST))
                yield an_exit(attempt.id.job, ending, 0, attempt.id.number)
        if self.submitted and rng.random() < 0.2:
            wish = rng.choice((CancelRequested, HoldRequested, ReleaseRequested, ReleaseRequested))
            yield wish(JobId(rng.randint(1, self.submitted)), "ada")
        yield from self._edits()
        if rng.random() < 0.1:
            host = rng.choice(self.hosts)[0].host
            yield HostResumed(host, "ada") if host in self.state.drained else HostDrained(host, "ada", "maintenance")
        yield from self._bookings()
        if self.forgets and rng.random() < 0.05:
            yield HostForgotten(rng.choice(self.hosts)[0].host, "ada")
        if rng.random() < 0.15:
            accounts = [Account(QuotaScope.USER, name) for name in ("ada", "bob", EVERYONE)]
            account = rng.choice([*accounts, Account(QuotaScope.PROJECT, "vision")])
            devices, hours = rng.choice((None, 1, 2, 4)), rng.choice((None, None, 0.02, 0.2))
            limits = Quota(account, running_devices=devices, device_hours=hours, window_s=3600.0)
            yield QuotaRemoved(account, "root") if rng.random() < 0.4 else QuotaSet(limits, "root")

    def _edits(self) -> Iterator[JobEdited]:
        rng = self.rng
        if not self.edits or not self.submitted or rng.random() > 0.4:
            return
        values = {
            "priority": rng.choice((0, 0, 0, 5)),
            "share": rng.choice((Sharing.AUTO, Sharing.AUTO, Sharing.AUTO, Sharing.NEVER)),
            "max_slowdown": rng.choice((None, None, 1.05)),
            "gpu_memory": rng.choice((None, None, None, 30 * GIB)),
            "time_limit_s": rng.choice((None, None, 20.0, 100.0)),
            "begin_at": rng.choice((None, self.now + 60.0)),
        }
        edit = edit_of({name: value for name, value in values.items() if rng.random() < 0.3})
        yield JobEdited(JobId(rng.randint(1, self.submitted)), edit, "ada")

    def _bookings(self) -> Iterator[Event]:
        rng = self.rng
        if self.books and rng.random() < 0.1:
            self.booked += 1
            devices = rng.choice(self.hosts)
            ids = tuple(sorted(device.id for device in rng.sample(devices, rng.randint(1, len(devices)))))
            begins = self.now + rng.choice((0.0, 60.0, 200.0))
            ends = begins + rng.choice((30.0, 300.0))
            yield BookingMade(
                Booking(BookingId(self.booked), rng.choice(("ada", "bob", "eve")), "ada", ids, begins, ends)
            )
        if self.state.bookings and rng.random() < 0.1:
            yield BookingCancelled(rng.choice(list(self.state.bookings)), "ada")

    def _report(self, devices: tuple[Device, ...]) -> HostReported:
        rng = self.rng
        readings = {}
        for device in devices:
            foreign = rng.choice((0, 0, 0, 0, 2, 20)) * GIB
            unwell = "XID 79" if rng.random() < 0.05 else None
            readings[device.id] = a_reading(used_memory=foreign, foreign_memory=foreign, unwell=unwell)
        if rng.random() < 0.1:
            features = rng.choice(((), ("fast",), ("tall", "wide")))
            number = self.hosts.index(devices)
            until_at = rng.choice((None, self.now + 50.0, self.now + 500.0))
            self.hosts[number] = devices = tuple(replace(d, features=features, until_at=until_at) for d in devices)
        host = devices[0].host
        there = [a for a in self.state.attempts.values() if a.host == host]
        residents = tuple(a_resident(a.id.job, a.id.number, rng.choice((1, 4))) for a in there)
        return a_report(*devices, residents=residents, readings=dict(readings), host=host)


def assert_within_quotas(state: State, launch: Launch) -> None:
    for account in state.jobs[launch.attempt.id.job].accounts:
        quota = quota_of(account, state.quotas)
        if quota is not None and quota.running_devices is not None:
            attempts = [a for a in state.attempts.values() if account in state.jobs[a.id.job].accounts]
            assert sum(len(attempt.devices) for attempt in attempts) <= quota.running_devices


def assert_allowed(state: State, launch: Launch) -> None:
    constraints = state.jobs[launch.attempt.id.job].constraints
    devices = [state.devices[device] for attempt in launch.attempts for device in attempt.devices]
    assert constraints is None or not any(map(constraints.unmet, devices))


def assert_within_bookings(state: State, launch: Launch, now: float) -> None:
    job = state.jobs[launch.attempt.id.job]
    lasts_s = job.time_limit_s or launch.attempt.forecast.duration_p90_s or inf
    for booking in state.bookings.values():
        there = any(not set(attempt.devices).isdisjoint(booking.devices) for attempt in launch.attempts)
        assert not there or booking.user == job.owner or now >= booking.until_at or now + lasts_s <= booking.from_at


def assert_ends_in_time(state: State, launch: Launch, now: float) -> None:
    job = state.jobs[launch.attempt.id.job]
    lasts_s = job.time_limit_s or launch.attempt.forecast.duration_p90_s or 0.0
    for device in (state.devices[device] for attempt in launch.attempts for device in attempt.devices):
        assert device.until_at is None or now + (0.0 if job.preemptible else lasts_s) <= device.until_at


def compared(world: World, policy: str, passes: int, journal: Journal | None = None) -> list[Action]:
    """Play the world, and record it where there is a journal. What was done.

    In each pass a cache that is kept, one that is dropped at random, and a new one are compared, each with its own forecasts.
    """
    kept, dropped, chance = PassCache(), PassCache(), random.Random(world.submitted)
    tables = [ForecastTable(world.answers) for _ in range(3)]
    # Policies may be random or remember: each cache has a policy of its own that has seen the same passes.
    seed = world.rng.random()
    policies = [POLICIES[policy](random.Random(seed)) for _ in range(3)]
    done: list[Action] = []
    for _ in range(passes):
        for event in world.events():
            if apply(world.state, event, world.now) and journal is not None:
                journal.note(event, world.now)
        if world.rng.random() < 0.1 and journal is None:  # something was learned
            world.salt += 1
            for table in tables:
                table.forget()
        if chance.random() < 0.3:
            dropped = PassCache()
        tables[2] = ForecastTable(world.answers)
        decided = [
            decide(world.state, table, cache, world.limits, own, world.now)
            for table, cache, own in zip(tables, (kept, dropped, PassCache()), policies, strict=True)
        ]
        assert decided[0] == decided[2], "a cache that was kept decides something else than none"
        assert decided[1] == decided[2], "a cache that was dropped now and then decides something else than none"
        for action in decided[0]:
            assert apply(world.state, action, world.now), f"{action} changed nothing"
            if journal is not None:
                journal.note(action, world.now)
            if isinstance(action, Launch):
                assert_within_quotas(world.state, action)
                assert_allowed(world.state, action)
                assert_within_bookings(world.state, action, world.now)
                assert_ends_in_time(world.state, action, world.now)
        validate(world.state)
        done += decided[0]
    return done


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 1_000_000))
@example(seed=53)  # a job waits for a reserved device while the policy leaves another one idle that would admit it
@example(seed=1)  # a device that is reserved for another job becomes one that would admit the job
@example(seed=1397)  # a host is forgotten of which a device is booked, while a job waits for several devices
@example(seed=15128)  # a job on devices of two classes, whose longest time is unknown on one, beside a booking
@example(
    seed=9224
)  # a job on four devices of which one is given back first, and then the booking of another user begins
def test_a_cache_of_any_age_decides_the_same_as_none(policy: str, seed: int) -> None:
    compared(World(seed), policy, passes=20)


@pytest.mark.parametrize("seed", range(3))
def test_a_recorded_journal_is_decided_again_as_it_was_with_a_cache_of_any_age(seed: int) -> None:
    journal, world = Journal(0), World(seed)
    compared(world, "packed", passes=30, journal=journal)
    items = [(entry.at, from_plain(entry.name, entry.body)) for entry in journal.take()]
    chance, state, forecasts = random.Random(seed), State(), ForecastTable(world.answers)
    kept, dropped, passes = PassCache(), PassCache(), 0
    while items:
        now, item = items[0]
        if not isinstance(item, Action):
            apply(state, item, now)
            del items[0]
            continue
        # An action comes next, so this is where a pass was.
        passes += 1
        dropped = PassCache() if chance.random() < 0.3 else dropped
        for cache in (kept, dropped, PassCache()):
            decided = decide(state, forecasts, cache, world.limits, packed, now)
            assert decided == [recorded for _, recorded in items[: len(decided)]] != []
        for action in decided:
            apply(state, action, now)
        del items[: len(decided)]
    assert passes > 10


def test_the_random_worlds_launch_refuse_and_reserve() -> None:
    """Otherwise the comparison would prove nothing."""
    done = [action for seed in range(16, 40, 2) for action in compared(World(seed), "preempting", passes=40)]
    kinds = {type(action) for action in done}
    assert {Launch, SetPendingReason, Reserve} <= kinds
    rules = {verdict.rule for a in done if isinstance(a, SetPendingReason) for verdict in (a.verdict,)}
    assert {Rule.SLOWDOWN_BUDGET, Rule.PREDICTED_LOAD, Rule.RESOURCES, Rule.NEVER_FITS} <= rules
    assert {Rule.DEVICE_QUOTA, Rule.DEVICE_HOURS_QUOTA, Rule.ARRAY_LIMIT, Rule.BOOKED, Rule.TIME_LEFT} <= rules
    assert sum(isinstance(a, Launch) and a.attempt.had_partner for a in done) > 10


def test_a_state_restored_from_its_snapshot_decides_the_same() -> None:
    world = World(3)
    compared(world, "packed", passes=30)
    again = from_snapshot(snapshot(world.state))
    forecasts = ForecastTable(world.answers)
    first, second = (decide(s, forecasts, PassCache(), world.limits, packed, world.now) for s in (world.state, again))
    assert first == second


def test_forecasts_that_are_replaced_end_what_was_concluded_from_the_old_ones() -> None:
    play = Playbook().forecast("kind", a_forecast(80, 4)).happen(a_report(a_device()), Submitted(a_job(1))).settle()
    play.happen(Submitted(a_job(2))).settle()
    assert play.reason(2) is Rule.PREDICTED_LOAD
    assert list(play.launched()) == [1]

    play.forecast("kind", a_forecast(20, 4)).settle()

    assert list(play.launched()) == [1, 2]


def test_conclusions_about_classes_without_waiting_jobs_are_dropped_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pass_cache, "_PRUNE_FROM", 100)
    play = Playbook().forecast("kind", a_forecast(80, 4)).happen(a_report(a_device()))
    for number in range(1, 150):
        apply(play.state, Submitted(a_job(number, kind=f"kind{number}")), play.now)
        apply(play.state, CancelRequested(JobId(number), "ada"), play.now)
    validate(play.state)
    play.decide()
    for number in range(200, 260):
        apply(play.state, Submitted(a_job(number, kind=f"kind{number}")), play.now)
    play.decide()
    assert len(play.cache.classes) >= 60
    for number in range(200, 260):
        apply(play.state, CancelRequested(JobId(number), "ada"), play.now)
    for number in range(300, 360):
        apply(play.state, Submitted(a_job(number, kind=f"kind{number}")), play.now)
    play.decide()
    play.context()

    waiting = set(play.state.index.classes)
    assert set(play.cache.classes) <= waiting


def test_conclusions_about_what_no_job_asks_for_any_more_are_dropped_although_something_is_learned_all_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The devices that meet a set of constraints are some 30 KB on a thousand devices, and users name ever other hosts."""
    monkeypatch.setattr(pass_cache, "_PRUNE_FROM", 20)
    play = Playbook().happen(a_report(a_device()))
    for number in range(1, 200):
        elsewhere = DeviceConstraints(excluded_hosts=(HostId(f"host{number}"),))
        play.happen(Submitted(a_job(number, declared_memory=100 * GIB + number, constraints=elsewhere)))
        play.decide()
        play.happen(CancelRequested(JobId(number), "ada"))
        play.known.forget()
    play.decide()
    kept = {name: len(value) for name, value in vars(play.cache).items() if isinstance(value, dict)}
    assert max(kept.values()) < 20, kept
