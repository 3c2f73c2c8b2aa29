"""Which residents stand still for a short job: those whose devices it uses, and that run longer than it does."""

from __future__ import annotations

from dataclasses import replace

from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.actions import Launch
from gpuq.core.state.events import Submitted
from tests.support.nouns import a_device, a_forecast, a_job, a_report, a_resident, a_start
from tests.support.playbook import Playbook

HOUR = 3600.0
DEVICES = (a_device("gpu0"), a_device("gpu1"))


def busy(*counts: int, left_s: float = 10 * HOUR) -> Playbook:
    """Jobs on so many devices each have run for two hours; later ones began an hour later."""
    play = Playbook(Limits(pauses=True, max_slowdown=1.2))
    ran = 2 * HOUR
    for kind, seconds in (("long", ran + left_s), ("short", 300.0), ("new", None)):
        known = {"duration_p50_s": seconds, "duration_p90_s": seconds, "duration_runs": 9}
        play.forecast(kind, a_forecast(98, 4, **known))
    play.happen(a_report(*DEVICES))
    for number, count in enumerate(counts, 1):
        play.happen(Submitted(a_job(number, kind="long", device_count=count, submitted_at=play.now))).settle()
        play.happen(a_start(number), after=1)
        play.now += ran / len(counts)
        seen = (replace(a_resident(job, gib=4), slowed_s=0.0, paused_s=0.0) for job in range(1, number + 1))
        play.happen(a_report(*DEVICES, residents=tuple(seen)))
    return play


def paused_for(play: Playbook, count: int = 1, kind: str = "short") -> list[int] | None:
    """The jobs that stand still for a new one on so many devices; None if it waits."""
    play.happen(Submitted(a_job(9, kind=kind, device_count=count, submitted_at=play.now))).settle()
    launches = (a for a in play.done if isinstance(a, Launch) and a.attempt.id.job == 9)
    return next(([attempt.job for attempt in launch.pauses] for launch in launches), None)


def test_the_resident_that_has_most_left_stands_still() -> None:
    assert paused_for(busy(1, 1)) == [1]


def test_all_residents_stand_still_for_a_job_on_several_devices() -> None:
    assert paused_for(busy(1, 1), count=2) == [1, 2]


def test_a_job_on_several_devices_stands_still_as_a_whole_for_one_that_uses_them_all() -> None:
    assert paused_for(busy(2), count=2) == [1]
    assert paused_for(busy(2)) is None, "one of its devices would stand idle"


def test_a_resident_that_will_probably_end_before_is_waited_for() -> None:
    assert paused_for(busy(2, left_s=200.0), count=2) is None
    assert paused_for(busy(2, left_s=900.0), count=2) == [1]


def test_a_job_whose_duration_is_not_known_waits() -> None:
    assert paused_for(busy(1, 1), kind="new") is None
