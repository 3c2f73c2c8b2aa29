"""Every policy that is offered keeps what it must and what it claims; and the kit finds those that do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.scheduling.policy import Eviction, Policy, Proposal, propose_nothing
from gpuq.core.state.device import DeviceId
from gpuq.errors import BadInput
from gpuq.lab.sim.conformance import conformance, main
from gpuq.lab.sim.exercises import Exercise, exercises
from gpuq.policies import registry
from gpuq.policies.lists.packed import packed
from gpuq.policies.spec import Recipe

EXERCISES = {exercise.name: exercise for exercise in exercises()}


def frozen() -> float:
    """A test never judges by seconds."""
    return 0.0


# The whole kit takes minutes over all policies: these two go through all of it, the others through the part that has everything
# in it, and through all of it with `make soak`.
ALWAYS_WHOLE = {"packed", "priority"}
PART = ("a mixture", "a mixture with preemption")


def keeps(name: str, only: list[Exercise] | None) -> None:
    recipe = registry.recipe(name)
    try:
        found = conformance(recipe, clock=frozen, only=only)
    except BadInput as missing:
        pytest.skip(f"{name}: {missing.message}")
    assert found == []


@pytest.mark.parametrize("name", registry.names())
def test_every_policy_that_is_offered(name: str) -> None:
    keeps(name, None if name in ALWAYS_WHOLE else [EXERCISES[part] for part in PART])


@pytest.mark.soak
@pytest.mark.parametrize("name", registry.names())
def test_every_policy_that_is_offered_through_all_of_it(name: str) -> None:
    keeps(name, None)


def findings(policy: Callable[[], Policy], exercise: str = "a mixture", **claims: bool) -> str:
    recipe = Recipe("under test", lambda scheduling: policy(), **claims)
    return "\n".join(conformance(recipe, clock=frozen, only=[EXERCISES[exercise]]))


def test_one_that_does_nothing_is_found() -> None:
    assert "never ended although all others did" in findings(lambda: propose_nothing)
    assert "leaves devices idle" in findings(lambda: propose_nothing, work_conserving=True)


def test_one_that_raises_is_found() -> None:
    def faulty(context: SchedulingContext) -> Iterator[Proposal]:
        raise ValueError("no")
        yield

    assert "it raises ValueError: no" in findings(lambda: faulty)


def test_one_that_invents_devices_jobs_and_attempts_is_found() -> None:
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

    told = findings(lambda: inventing)
    assert "it proposes jobs that do not wait" in told
    assert "it stops jobs whose submitters did not allow it" in told
    assert "it proposes devices that do not exist" in told


def test_one_that_stops_and_starts_in_a_circle_is_found() -> None:
    def fickle(context: SchedulingContext) -> Iterator[Proposal | Eviction]:
        yield from packed(context)
        for job in context.waiting:
            for attempt in context.state.attempts:
                if context.state.jobs[attempt.job].preemptible:
                    yield Eviction(attempt, job)

    assert "in a circle" in findings(lambda: fickle)


def test_one_that_depends_on_chance_is_found() -> None:
    turns = iter(range(10**9))

    def moody(context: SchedulingContext) -> Iterator[Proposal]:
        proposals = list(packed(context))
        return iter(proposals[:: -1 if next(turns) % 3 else 1])

    assert "the same seed does not give the same starts" in findings(lambda: moody)


def test_one_that_starves_is_found_unless_it_owns_up() -> None:
    def never_the_first(context: SchedulingContext) -> Iterator[Proposal]:
        for job in [job for job in context.waiting if job.id > 1] or context.waiting:
            for snapshots in context.choices(job):
                yield Proposal(job, tuple(snapshot.device for snapshot in snapshots))
                if context.placed(job):
                    break

    beside = "a low priority beside a high one"
    assert "it claims to be starvation free, and job 1 waited" in findings(lambda: never_the_first, beside)
    assert findings(lambda: never_the_first, beside, starvation_free=False) == ""


def test_one_that_takes_too_long_is_found() -> None:
    ticks = iter(range(0, 10**9, 3))
    recipe = Recipe("slow", lambda scheduling: packed)

    assert any(
        "took 3.0 s" in found for found in conformance(recipe, clock=lambda: next(ticks), only=[EXERCISES["a mixture"]])
    )


def test_the_command_tells_and_its_exit_code_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nobody"]) == 2
    assert "there is no policy `nobody`" in capsys.readouterr().err
