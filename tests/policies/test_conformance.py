"""Every policy of gpuq passes the conformance kit, and the kit finds policies that break its rules."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import cache

import pytest

from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.scheduling.policy import Eviction, Policy, Proposal, propose_nothing
from gpuq.core.state.device import DeviceId
from gpuq.errors import BadInput
from gpuq.lab.sim.conformance import conformance, main
from gpuq.lab.sim.exercises import Exercise, exercises
from gpuq.policies import registry
from gpuq.policies.catalogue import catalogue
from gpuq.policies.lists.packed import packed
from gpuq.policies.spec import PolicySpec
from gpuq.settings import Scheduling

EXERCISES = {exercise.name: exercise for exercise in exercises()}


def frozen() -> float:
    """A test never judges by seconds."""
    return 0.0


# The whole kit takes minutes over all policies: the default one goes through all of it, the others through the part that has
# everything in it, and through all of it with `make soak`.
ALWAYS_WHOLE = {"packed"}


@cache
def settings_read() -> dict[str, Collection[str]]:
    """The names of the settings that each policy reads. Making all of them takes half a second."""
    return {entry.name: entry.settings or {} for entry in catalogue(Scheduling())}


def part(name: str) -> list[Exercise]:
    """The mixture, and the same one with preemption; to a policy that does not read this setting, both are one exercise."""
    names = ["a mixture", "a mixture with preemption"] if "preemption" in settings_read()[name] else ["a mixture"]
    return [EXERCISES[exercise] for exercise in names]


def keeps(name: str, only: list[Exercise] | None) -> None:
    spec = registry.spec(name)
    try:
        found = conformance(spec, clock=frozen, only=only)
    except BadInput as missing:
        pytest.skip(f"{name}: {missing.message}")
    assert found == []


@pytest.mark.parametrize("name", registry.names())
def test_policy_passes_a_part_of_the_kit(name: str) -> None:
    keeps(name, None if name in ALWAYS_WHOLE else part(name))


def test_exercises_with_and_without_preemption_differ_in_that_setting_only() -> None:
    without, with_preemption = EXERCISES["a mixture"], EXERCISES["a mixture with preemption"]
    changed = replace(without.scheduling, preemption=True)

    assert with_preemption == replace(without, name=with_preemption.name, scheduling=changed)


@pytest.mark.soak
@pytest.mark.parametrize("name", registry.names())
def test_policy_passes_the_whole_kit(name: str) -> None:
    keeps(name, None)


def findings(policy: Callable[[], Policy], exercise: str = "a mixture", **claims: bool) -> str:
    spec = PolicySpec("under test", lambda scheduling: policy(), **claims)
    return "\n".join(conformance(spec, clock=frozen, only=[EXERCISES[exercise]]))


def test_kit_finds_a_policy_that_does_nothing() -> None:
    found = findings(lambda: propose_nothing, work_conserving=True)
    assert "never ended although all others did" in found
    assert "leaves devices idle" in found


def test_kit_finds_a_policy_that_raises() -> None:
    def faulty(context: SchedulingContext) -> Iterator[Proposal]:
        raise ValueError("no")
        yield

    assert "it raises ValueError: no" in findings(lambda: faulty)


def test_kit_finds_a_policy_that_invents_devices_jobs_and_attempts() -> None:
    def inventing(context: SchedulingContext) -> Iterator[Proposal | Eviction]:
        for proposal in packed(context):
            yield proposal
            if isinstance(proposal, Proposal):
                stranger = replace(proposal.devices[0], id=DeviceId("nowhere"))
                yield Proposal(replace(proposal.job, id=999), proposal.devices)
                for attempt in context.state.attempts.values():
                    yield Eviction(attempt.id, proposal.job)
                    if not context.state.jobs[attempt.id.job].preemptible:
                        yield Proposal(proposal.job, (stranger,))

    found = findings(lambda: inventing)
    assert "it proposes jobs that do not wait" in found
    assert "it stops jobs whose submitters did not allow it" in found
    assert "it proposes devices that do not exist" in found


def test_kit_finds_a_policy_that_stops_and_starts_the_same_jobs_for_ever() -> None:
    def fickle(context: SchedulingContext) -> Iterator[Proposal | Eviction]:
        yield from packed(context)
        for job in context.waiting:
            for attempt in context.state.attempts:
                if context.state.jobs[attempt.job].preemptible:
                    yield Eviction(attempt, job)

    assert "in a circle" in findings(lambda: fickle)


def test_kit_finds_a_policy_that_is_not_deterministic() -> None:
    # Not a fixed period: if it divided the number of passes, both runs would get the same orders.
    coin = random.Random(1)

    def moody(context: SchedulingContext) -> Iterator[Proposal]:
        proposals = list(packed(context))
        return iter(proposals[:: coin.choice((-1, 1))])

    assert "the same seed does not give the same starts" in findings(lambda: moody)


def test_kit_finds_starvation_unless_the_spec_admits_it() -> None:
    def never_the_first(context: SchedulingContext) -> Iterator[Proposal]:
        for job in [job for job in context.waiting if job.id > 1] or context.waiting:
            for snapshots in context.choices(job):
                yield Proposal(job, tuple(snapshot.device for snapshot in snapshots))
                if context.placed(job):
                    break

    beside = "a low priority beside a high one"
    assert "it claims to be starvation free, and job 1 waited" in findings(lambda: never_the_first, beside)
    assert findings(lambda: never_the_first, beside, starvation_free=False) == ""


def test_kit_finds_a_policy_that_takes_too_long() -> None:
    ticks = iter(range(0, 10**9, 3))
    spec = PolicySpec("slow", lambda scheduling: packed)

    assert any(
        "took 3.0 s" in found for found in conformance(spec, clock=lambda: next(ticks), only=[EXERCISES["a mixture"]])
    )


def test_command_prints_findings_and_exits_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["missing"]) == 2
    assert "there is no policy `missing`" in capsys.readouterr().err
