"""Devices reserved for a job that waited beyond its patience, or for which others are stopped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.scheduling.forecast_table import ForecastTable
from gpuq.core.scheduling.limits import Limits
from gpuq.core.scheduling.policy import Eviction, Policy, Proposal, propose_nothing
from gpuq.core.state.actions import EndReservation, Launch, Reserve, Stop
from gpuq.core.state.apply import apply
from gpuq.core.state.attempt import Ending
from gpuq.core.state.booking import Booking, BookingId
from gpuq.core.state.constraints import DeviceConstraints
from gpuq.core.state.device import DeviceId, Reading
from gpuq.core.state.events import BookingMade, CancelRequested, HoldRequested, Submitted
from gpuq.core.state.job import JobId
from gpuq.core.state.reservation import Reservation, ReservationReason
from gpuq.core.state.state import State
from gpuq.core.state.verdict import Rule
from gpuq.policies.lists import priority
from gpuq.policies.lists.packed import packed
from gpuq.settings import Scheduling
from tests.support.nouns import GIB, a_device, a_forecast, a_job, a_reading, a_report, a_resident, a_start, an_exit
from tests.support.playbook import Playbook

PATIENT = Limits(patience_s=600, stale_after_s=1e9)


def overdue(policy: Policy = packed) -> Playbook:
    """Job 1 runs on the only device; job 2 cannot share it and has waited beyond its patience."""
    play = Playbook(PATIENT, policy).forecast("light", a_forecast(20, 1)).forecast("heavy", a_forecast(98, 1))
    play.happen(a_report(a_device()), Submitted(a_job(1, kind="light", submitted_at=100.0))).settle()
    play.happen(Submitted(a_job(2, kind="heavy", submitted_at=play.now))).settle()
    return play.happen(after=700).settle()


def reserved(play: Playbook) -> dict[int, tuple[str, ...]]:
    return {int(job): reservation.devices for job, reservation in play.state.reservations.items()}


def test_an_overdue_job_gets_a_reservation_in_the_state() -> None:
    play = overdue()
    assert play.state.reservations == {JobId(2): Reservation(JobId(2), (DeviceId("gpu0"),), ReservationReason.OVERDUE)}
    assert [type(action) for action in play.done].count(Reserve) == 1, "once, not in each pass"


def test_a_job_within_its_patience_gets_none() -> None:
    play = Playbook(PATIENT).forecast("heavy", a_forecast(90, 1, duration_p50_s=1000.0))
    play.happen(a_report(a_device()), Submitted(a_job(1, kind="heavy", submitted_at=play.now))).settle()
    play.happen(Submitted(a_job(2, kind="heavy", submitted_at=play.now))).settle()
    assert reserved(play.happen(after=4900).settle()) == {}, "five times its own 1000 s, which is more than patience_s"
    assert reserved(play.happen(after=200).settle()) == {2: ("gpu0",)}


def test_other_jobs_are_refused_while_the_device_drains() -> None:
    play = overdue().happen(Submitted(a_job(3, kind="light", submitted_at=800.0))).settle()
    assert list(play.launched()) == [1]
    assert play.reason(3) in (Rule.RESERVED, Rule.RESOURCES)


def test_the_end_of_the_last_resident_is_known_before_the_reading_without_its_memory() -> None:
    """A host reports every second. Until then the device stays reserved, and no job that fits beside that memory takes it."""
    play = overdue()
    used = {"gpu0": a_reading(used_memory=10 * GIB)}
    play.happen(a_report(a_device(), residents=(a_resident(1, gib=10),), readings=used), a_start(1))
    play.forecast("heavy", a_forecast(98, 20)).happen(Submitted(a_job(3, kind="light", submitted_at=800.0))).settle()

    play.happen(an_exit(1)).settle()
    assert list(play.launched()) == [1]
    assert reserved(play) == {2: ("gpu0",)}

    assert play.happen(a_report(a_device()), after=1.0).settle().launched()[2] == "gpu0"


def test_the_reservation_ends_with_the_launch_of_its_job() -> None:
    play = overdue().happen(a_start(1), an_exit(1)).settle()
    assert play.launched()[2] == "gpu0"
    assert reserved(play) == {}
    assert not any(isinstance(action, EndReservation) for action in play.done), "the launch ended it"


@pytest.mark.parametrize("wish", [CancelRequested, HoldRequested])
def test_a_job_that_stops_waiting_has_no_reservation(wish: type[CancelRequested]) -> None:
    play = overdue().happen(wish(JobId(2), "ada"))
    assert reserved(play) == {}


def test_a_policy_that_no_longer_tries_the_job_ends_its_reservation() -> None:
    play = overdue()
    play.policy = propose_nothing
    assert EndReservation(JobId(2)) in play.decide()
    assert reserved(play) == {}


def test_devices_that_will_be_free_sooner_replace_those_reserved() -> None:
    """Of two devices with one attempt each, the one where it was launched first; when the other host is empty, that."""
    play = Playbook(PATIENT).forecast("heavy", a_forecast(90, 1)).happen(a_report(a_device("a0"), a_device("a1")))
    play.happen(Submitted(a_job(1, kind="heavy", device_count=2, submitted_at=play.now))).settle()
    play.happen(a_report(a_device("b0", host="b"), a_device("b1", host="b"), host="b"))
    for number in (2, 3):
        play.happen(Submitted(a_job(number, kind="heavy", submitted_at=play.now)), after=1.0).settle()
    play.happen(Submitted(a_job(4, kind="heavy", device_count=2, submitted_at=play.now))).settle()
    assert reserved(play.happen(after=700).settle()) == {4: ("a0", "a1")}, (
        "one attempt has to end there, on the other host two"
    )

    play.happen(a_start(2), an_exit(2), a_start(3)).settle()
    assert reserved(play) == {4: ("a0", "a1")}, "one attempt each, and that of the gang is the older one"

    play.happen(an_exit(3)).settle()
    assert play.launched()[4] == "b0"


def test_only_one_overdue_job_has_a_reservation_at_a_time() -> None:
    play = Playbook(PATIENT).forecast("heavy", a_forecast(90, 1)).happen(a_report(a_device("gpu0"), a_device("gpu1")))
    for number in range(1, 6):
        play.happen(Submitted(a_job(number, kind="heavy", max_slowdown=1 + number / 100, submitted_at=play.now)))
    play.settle().happen(after=700).settle()
    assert len(reserved(play)) == 1


FOUR = tuple(a_device(f"gpu{number}") for number in range(4))
HOUR_S = 3600.0


def beside_a_long_job(**waits: object) -> Playbook:
    """Job 1 runs on gpu0 for a month, jobs 2 to 4 run on the other devices for an hour each. Job 5 waits for devices with gpu0
    for longer than its patience."""
    limits = Limits(residents_per_device=1, patience_s=600, patience_ratio=0, stale_after_s=1e9)
    play = Playbook(limits).happen(a_report(*FOUR))
    for kind, hours in (("month", 720), ("hour", 1)):
        seconds = hours * HOUR_S
        play.forecast(kind, a_forecast(90, 1, duration_p50_s=seconds, duration_p90_s=seconds))
    for number in range(1, 5):
        kind = "month" if number == 1 else "hour"
        play.happen(Submitted(a_job(number, kind=kind, submitted_at=play.now))).settle()
        play.happen(a_start(number, at=play.now))
    play.happen(Submitted(a_job(5, kind="hour", owner="dan", submitted_at=play.now, **waits))).settle()
    return play.happen(after=700).settle()


def test_a_job_that_waits_for_a_long_drain_keeps_no_other_from_its_turn() -> None:
    play = beside_a_long_job(constraints=DeviceConstraints(devices=(DeviceId("gpu0"),)))
    assert reserved(play) == {5: ("gpu0",)}
    play.happen(Submitted(a_job(6, kind="hour", owner="ann", device_count=2, submitted_at=play.now))).settle()
    assert reserved(play.happen(after=700).settle()) == {5: ("gpu0",), 6: ("gpu1", "gpu2")}

    play.happen(Submitted(a_job(7, kind="hour", owner="eve", submitted_at=play.now))).settle()
    assert reserved(play.happen(after=700).settle()) == {5: ("gpu0",), 6: ("gpu1", "gpu2")}, "one after the other"


def test_devices_that_wait_for_a_long_drain_are_had_before_by_a_job_that_will_have_ended() -> None:
    """gpu1 would be idle for a month. Job 6 has it before, and then jobs 5 and 7 wait in turn again."""
    play = beside_a_long_job(
        constraints=DeviceConstraints(devices=(DeviceId("gpu0"), DeviceId("gpu1"))), device_count=2
    )
    assert reserved(play) == {5: ("gpu0", "gpu1")}
    play.happen(Submitted(a_job(6, kind="hour", owner="ann", device_count=3, submitted_at=play.now))).settle()
    play.happen(
        Submitted(a_job(7, kind="month", owner="eve", device_count=3, submitted_at=play.now)), after=700
    ).settle()
    assert reserved(play) == {6: ("gpu1", "gpu2", "gpu3")}

    play.happen(*(an_exit(number) for number in (2, 3, 4)), after=700).settle()
    assert play.launched()[6].startswith("gpu1")
    assert reserved(play) == {5: ("gpu0", "gpu1")}, "nor has job 7 those: it would keep them for longer"


def test_jobs_that_can_have_different_devices_only_do_not_wait_for_each_other() -> None:
    others = [a_device(f"b{number}", host="b", type="B") for number in range(2)]
    play = Playbook(replace(PATIENT, residents_per_device=1)).happen(a_report(*FOUR[:2]), a_report(*others, host="b"))
    for number in range(1, 5):
        play.happen(Submitted(a_job(number, submitted_at=play.now))).settle()
    for number, type_ in ((5, "A"), (6, "B"), (7, "A")):
        wish = DeviceConstraints(types=(type_,))
        play.happen(Submitted(a_job(number, kind=f"kind{number}", constraints=wish, submitted_at=play.now)))
    assert reserved(play.settle().happen(after=700).settle()) == {5: ("gpu0",), 6: ("b0",)}


def test_small_jobs_behind_a_gang_do_not_have_devices_reserved_before_it_one_after_the_other() -> None:
    """In the pass in which a reserved device is used, all devices of the gang's only host cannot be had, and it waits on."""
    play = Playbook(replace(PATIENT, residents_per_device=1)).happen(a_report(*FOUR[:2]))
    for number in (1, 2):
        play.happen(Submitted(a_job(number, submitted_at=play.now))).settle().happen(a_start(number))
    for number, count in ((3, 1), (4, 2), (5, 1), (6, 1)):  # users of their own, so jobs of different classes
        play.happen(Submitted(a_job(number, owner=f"user{number}", device_count=count, submitted_at=play.now)), after=1)
    play.happen(after=700).settle()
    (first,) = reserved(play)[3]

    play.happen(an_exit(next(job for job, device in play.launched().items() if device == first))).settle()

    assert play.launched()[3] == first
    assert reserved(play) == {4: ("gpu0", "gpu1")}


def test_what_was_drained_for_a_gang_stays_closed_when_a_job_of_higher_priority_takes_one_device() -> None:
    play = Playbook(replace(PATIENT, residents_per_device=1)).happen(a_report(*FOUR))
    for number in range(1, 5):
        play.happen(Submitted(a_job(number, submitted_at=play.now))).settle().happen(a_start(number))
    play.happen(Submitted(a_job(5, device_count=4, submitted_at=play.now))).settle().happen(after=700).settle()
    play.happen(*map(an_exit, (2, 3, 4)), after=9000).settle()
    play.happen(Submitted(a_job(6, submitted_at=play.now)), after=1)
    play.happen(Submitted(a_job(7, owner="bob", priority=5, submitted_at=play.now))).settle()
    assert list(play.launched()) == [1, 2, 3, 4]

    play.happen(after=700).settle()
    assert list(play.launched()) == [1, 2, 3, 4, 7]
    assert reserved(play) == {5: ("gpu0", "gpu1", "gpu2", "gpu3")}


def test_a_reservation_stays_where_the_last_attempt_runs_on_while_others_begin_there() -> None:
    """Of no job is it known how long it takes, so each is expected to run for as long again as it has."""
    hosts = {host: [a_device(f"{host}{number}", host=host) for number in range(2)] for host in ("a", "b")}
    play = Playbook(replace(PATIENT, residents_per_device=1))
    play.happen(*(a_report(*devices, host=host) for host, devices in hosts.items()))
    for number in range(1, 5):
        play.happen(Submitted(a_job(number, submitted_at=play.now))).settle().happen(a_start(number))
    play.happen(Submitted(a_job(5, device_count=2, submitted_at=play.now))).settle().happen(after=700).settle()
    chosen = reserved(play)[5]
    drained = [job for job, device in play.launched().items() if device in chosen]
    others = [job for job in range(1, 5) if job not in drained]

    play.happen(an_exit(drained[0]), after=8 * 3600)
    for number, ended in zip((6, 7), others, strict=True):
        play.happen(Submitted(a_job(number, submitted_at=play.now)), an_exit(ended)).settle().happen(a_start(number))
    assert list(play.happen(after=3600).settle().launched()) == [1, 2, 3, 4, 6, 7]
    assert reserved(play) == {5: chosen}
    assert play.happen(an_exit(drained[1])).settle().launched()[5] == chosen[0]


def test_no_reservation_is_made_for_a_job_that_fits_nowhere() -> None:
    play = Playbook(PATIENT).happen(a_report(a_device()), Submitted(a_job(1, device_count=2))).settle()
    assert reserved(play.happen(after=10_000).settle()) == {}


def overdue_beside(reading: Reading, **changes: object) -> Playbook:
    """Job 1 runs on gpu0. Job 2 needs a device to itself and is overdue; gpu1 is idle, and has this reading."""
    play = Playbook(PATIENT).forecast("busy", a_forecast(98, 1)).happen(a_report(a_device("gpu0")))
    play.happen(Submitted(a_job(1, kind="busy"))).settle().happen(a_start(1))
    play.happen(Submitted(a_job(2, kind="other", submitted_at=play.now, **changes)), after=700)
    return play.happen(a_report(a_device("gpu0"), a_device("gpu1"), readings={"gpu1": reading})).settle()


def test_a_device_that_would_refuse_the_job_even_when_empty_is_not_reserved() -> None:
    """Next to it one would, which is reserved in its place; the idle device stays open to other jobs."""
    taken = a_reading(foreign_memory=8 * GIB)
    play = overdue_beside(taken)
    assert play.reason(2) is Rule.FOREIGN_PROCESS, "its need is not known"
    assert reserved(play) == {2: ("gpu0",)}
    play.happen(Submitted(a_job(3, kind="busy", owner="bob"))).settle()
    assert play.launched()[3] == "gpu1"

    for unfit in (taken, a_reading(used_memory=None), a_reading(unwell="a fault")):
        assert reserved(overdue_beside(unfit, declared_memory=20 * GIB)) == {2: ("gpu0",)}


def test_the_device_of_an_overdue_job_is_let_go_when_a_foreign_process_fills_it() -> None:
    play = overdue()
    report = a_report(a_device(), readings={"gpu0": a_reading(foreign_memory=24 * GIB)})
    assert reserved(play.happen(report).settle()) == {}
    assert reserved(play.happen(a_report(a_device())).settle()) == {2: ("gpu0",)}


def test_a_forecast_decides_whether_an_empty_device_would_do() -> None:
    play = Playbook(PATIENT).forecast("big", a_forecast(98, 20)).forecast("small", a_forecast(98, 2))
    full = {"gpu0": a_reading(foreign_memory=8 * GIB)}
    for number, kind in ((1, "small"), (2, "big"), (3, "small")):
        play.happen(Submitted(a_job(number, kind=kind, submitted_at=play.now)))
        play.happen(a_report(a_device(), readings=full), after=1.0).settle()
    assert reserved(play.happen(after=700).settle()) == {3: ("gpu0",)}, "20 GiB are not free there, 2 are"


@pytest.mark.parametrize("booked", [("gpu0",), ("gpu0", "gpu1")])
def test_a_device_that_a_user_has_booked_is_not_reserved_for_another(booked: tuple[str, ...]) -> None:
    """Drained, it would not start there."""
    play = Playbook(PATIENT).forecast("heavy", a_forecast(98, 1)).happen(a_report(a_device("gpu0"), a_device("gpu1")))
    for number in (1, 2, 3):
        play.happen(Submitted(a_job(number, kind="heavy", submitted_at=play.now))).settle()
    booking = Booking(BookingId(1), "ann", "ann", tuple(map(DeviceId, booked)), play.now + 800, play.now + 9000)
    play.happen(BookingMade(booking), after=700).settle()

    assert reserved(play) == ({3: ("gpu1",)} if booked == ("gpu0",) else {})


def test_a_device_that_a_job_gets_in_a_pass_is_drained_after_it() -> None:
    play = overdue()
    assert apply(play.state, EndReservation(JobId(2)), play.now)
    play.happen(Submitted(a_job(3, kind="light", priority=9, submitted_at=play.now)))

    assert [type(action) for action in play.decide() if isinstance(action, Launch | Reserve)] == [Launch, Reserve]
    play.happen(Submitted(a_job(4, kind="light", priority=9, submitted_at=play.now)), a_start(1), an_exit(1)).settle()
    assert reserved(play) == {2: ("gpu0",)}
    assert list(play.launched()) == [1, 3]


@pytest.mark.parametrize(("waited_s", "is_overdue"), [(1900, False), (2100, True)])
def test_a_job_is_as_patient_as_it_would_take_on_the_fastest_type_of_device(waited_s: float, is_overdue: bool) -> None:
    """5 times 400 s on type A; on B it would take much longer."""
    takes = {"A": a_forecast(98, 1, duration_p50_s=400.0), "B": a_forecast(98, 1, duration_p50_s=40_000.0)}
    play = Playbook(PATIENT).happen(a_report(a_device("gpu0"), a_device("gpu1", type="B")))
    play.known = ForecastTable(lambda questions: {question: takes[question.device_type] for question in questions})
    for number in (1, 2, 3):
        play.happen(Submitted(a_job(number, submitted_at=play.now))).settle()

    play.happen(after=waited_s).settle()
    assert (3 in reserved(play)) is is_overdue


def test_a_device_that_is_let_go_in_a_pass_is_looked_at_by_the_jobs_behind() -> None:
    """gpu0 is reserved for job 3, which starts on gpu1: job 5 then fits beside what the last reading of gpu0 counts."""
    play = Playbook(PATIENT).forecast("small", a_forecast(98, 2)).forecast("large", a_forecast(98, 20))
    both, used = (a_device("gpu0"), a_device("gpu1")), {"gpu0": a_reading(used_memory=10 * GIB)}
    play.happen(a_report(*both))
    for number in (1, 2):
        play.happen(Submitted(a_job(number, kind="large", submitted_at=play.now))).settle().happen(a_start(number))
    play.happen(Submitted(a_job(3, kind="large", submitted_at=play.now))).settle().happen(after=700).settle()
    assert reserved(play) == {3: ("gpu0",)}
    fits_nowhere = a_job(4, declared_memory=100 * GIB, priority=9)  # it looks through the devices first
    play.happen(Submitted(fits_nowhere), Submitted(a_job(5, kind="small", submitted_at=play.now))).settle()

    play.happen(a_report(*both, residents=(a_resident(1, gib=10),), readings=used), an_exit(1)).settle()
    assert reserved(play) == {3: ("gpu0",)}
    play.happen(an_exit(2)).settle()
    assert (play.launched()[3], play.launched()[5]) == ("gpu1", "gpu0")


# --- preemption ------------------------------------------------------------------------------------------------------


def preempting(*devices: str) -> Policy:
    """For each urgent job that waits, everything that may be stopped, with these devices reserved."""

    def policy(context: SchedulingContext) -> Iterator[Proposal | Eviction]:
        yield from packed(context)
        for job in context.waiting:
            if job.priority and job.id not in context.reservations:
                for attempt in context.state.attempts:
                    yield Eviction(attempt, job, tuple(DeviceId(device) for device in devices))

    return policy


def test_what_is_freed_is_reserved_for_the_job_that_it_was_freed_for() -> None:
    play = Playbook(Limits(residents_per_device=1, stale_after_s=1e9), preempting("gpu0")).happen(
        a_report(a_device("gpu0"))
    )
    play.happen(Submitted(a_job(1, preemptible=True))).settle().happen(
        a_start(1), Submitted(a_job(2, priority=1))
    ).settle()
    assert play.state.reservations[JobId(2)] == Reservation(JobId(2), (DeviceId("gpu0"),), ReservationReason.PREEMPTION)

    play.happen(Submitted(a_job(3, kind="other", priority=9)), an_exit(1, Ending.STOPPED)).settle()

    assert play.launched()[2] == "gpu0"
    assert reserved(play) == {}


def test_what_is_freed_stays_reserved_until_a_reading_no_longer_counts_the_memory_of_what_was_stopped() -> None:
    play = Playbook(Limits(residents_per_device=1), priority.SPEC.make(Scheduling(preemption=True)))
    both, used = (a_device("gpu0"), a_device("gpu1")), dict.fromkeys(("gpu0", "gpu1"), a_reading(used_memory=10 * GIB))
    play.forecast("small", a_forecast(20, 2)).happen(a_report(*both))
    for number in (1, 2):
        play.happen(Submitted(a_job(number, preemptible=True))).settle().happen(a_start(number))
    residents = (a_resident(1, gib=10), a_resident(2, gib=10))
    play.happen(a_report(*both, residents=residents, readings=used), Submitted(a_job(3, priority=1))).settle()
    (stopped,) = (action.attempt.job for action in play.done if isinstance(action, Stop))

    play.happen(Submitted(a_job(4, kind="small")), an_exit(stopped, Ending.STOPPED)).settle()
    assert list(play.launched()) == [1, 2]
    assert [type(action) for action in play.done].count(Stop) == 1, "nor is another one stopped in vain"

    assert play.happen(a_report(*both), after=1.0).settle().launched()[3] == play.launched()[stopped]


def test_a_job_for_which_another_is_being_stopped_keeps_those_devices_when_it_is_overdue() -> None:
    limits = Limits(residents_per_device=1, patience_s=600, stale_after_s=1e9)
    play = Playbook(limits, preempting("gpu1")).happen(a_report(a_device("gpu0"), a_device("gpu1")))
    for number in (1, 2):
        play.happen(Submitted(a_job(number, preemptible=True))).settle().happen(a_start(number))
    play.happen(Submitted(a_job(3, priority=1, submitted_at=play.now))).settle().happen(after=700).settle()

    assert play.state.reservations[JobId(3)] == Reservation(JobId(3), (DeviceId("gpu1"),), ReservationReason.PREEMPTION)


def test_another_device_is_freed_for_an_urgent_job_once_the_host_of_the_first_is_silent() -> None:
    """Else the job would wait until that host is back, or is given up."""
    hosts = {host: a_device(f"{host}/0", host=host) for host in ("a", "b")}
    play = Playbook(Limits(residents_per_device=1), priority.SPEC.make(Scheduling(preemption=True)))
    play.happen(*(a_report(device, host=host) for host, device in hosts.items()))
    for number in (1, 2):
        play.happen(Submitted(a_job(number, preemptible=True))).settle().happen(a_start(number))
    play.happen(Submitted(a_job(3, priority=1))).settle()
    (device,) = reserved(play)[3]
    (other,) = (host for host in hosts if hosts[host].id != device)

    for _ in range(5):
        seen = next(a_resident(job) for job, on in play.launched().items() if on == hosts[other].id)
        play.happen(a_report(hosts[other], residents=(seen,), host=other), after=5).settle()

    assert reserved(play) == {3: (f"{other}/0",)}
    assert {action.attempt.job for action in play.done if isinstance(action, Stop)} == {1, 2}


@pytest.mark.parametrize("devices", [("nowhere",), ("gpu0", "gpu0"), ("gpu0", "gpu1"), ("gpu0", "far")])
def test_devices_that_the_job_could_not_have_are_not_reserved(devices: tuple[str, ...]) -> None:
    play = Playbook(Limits(residents_per_device=1, stale_after_s=1e9), preempting(*devices))
    play.happen(a_report(a_device("gpu0"), a_device("gpu1")), a_report(a_device("far", host="far"), host="far"))
    for number in (1, 2, 3):
        play.happen(Submitted(a_job(number, preemptible=True))).settle().happen(a_start(number))
    play.happen(Submitted(a_job(4, priority=1))).settle()
    assert reserved(play) == {}


# --- apply -----------------------------------------------------------------------------------------------------------


def two_waiting() -> State:
    state = State()
    for item in (
        a_report(a_device("gpu0"), a_device("gpu1")),
        a_report(a_device("far", host="far"), host="far"),
        Submitted(a_job(1)),
        Submitted(a_job(2)),
        Submitted(a_job(3, device_count=2)),
    ):
        apply(state, item, 0.0)
    return state


@pytest.mark.parametrize(
    ("job", "devices"),
    [
        (9, ("gpu0",)),
        (1, ()),
        (1, ("nowhere",)),
        (1, ("gpu0", "gpu1")),
        (3, ("gpu0", "gpu0")),
        (3, ("gpu0", "far")),
        (2, ("gpu1",)),
    ],
)
def test_a_reservation_that_cannot_be_is_ignored(job: int, devices: tuple[str, ...]) -> None:
    state = two_waiting()
    assert apply(state, Reserve(Reservation(JobId(1), (DeviceId("gpu1"),))), 0.0)
    before = dict(state.reservations)
    assert not apply(state, Reserve(Reservation(JobId(job), tuple(map(DeviceId, devices)))), 0.0)
    assert state.reservations == before


def test_a_reservation_repeated_or_ended_twice_changes_nothing() -> None:
    state, reserve = two_waiting(), Reserve(Reservation(JobId(1), (DeviceId("gpu1"),)))
    assert [apply(state, item, 0.0) for item in (reserve, reserve)] == [True, False]
    assert [apply(state, item, 0.0) for item in (EndReservation(JobId(1)), EndReservation(JobId(1)))] == [True, False]
