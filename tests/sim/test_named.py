"""Candidates by name, held to the settings."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from gpuq.core.scheduling.policy import Policy
from gpuq.errors import BadInput
from gpuq.policies import registry
from gpuq.policies.spec import PolicySpec
from gpuq.settings import Scheduling, load
from gpuq.sim.named import candidate_named, rivals, usual
from tests.sim.small import world

SETTINGS = load({"GPUQ_HOME": "/nowhere", "GPUQ_ADMISSION_MAX_SLOWDOWN": "1.3"})


@pytest.mark.parametrize("name", [*usual("packed"), *usual("fifo"), *rivals(), "packed-blind"])
def test_every_candidate_is_found_by_its_name(name: str) -> None:
    assert candidate_named(name, SETTINGS, world()).name == name


def test_settings_hold_for_a_policy_and_without_sharing_but_for_that() -> None:
    packed = candidate_named("packed", SETTINGS, world())
    alone = candidate_named("packed-exclusive", SETTINGS, world())
    assert (packed.limits.max_slowdown, packed.limits.residents_per_device) == (1.3, 2)
    assert (alone.limits.max_slowdown, alone.limits.residents_per_device) == (1.3, 1)


def test_unknown_name_is_refused_with_the_known_names() -> None:
    with pytest.raises(BadInput, match="`missing`") as error:
        candidate_named("missing", SETTINGS, world())
    assert "exclusive-fifo" in error.value.fix


def cannot_be_made(scheduling: Scheduling) -> Policy:
    raise ZeroDivisionError("by nought")


BROKEN = PolicySpec("never made", cannot_be_made, work_conserving=True, starvation_free=True)


def test_policy_that_cannot_be_made_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = EntryPoint("broken", f"{__name__}:BROKEN", registry.GROUP)
    monkeypatch.setattr(registry, "installed", lambda: {"broken": broken})
    with pytest.raises(BadInput, match="the policy `broken` cannot be made: ZeroDivisionError: by nought"):
        candidate_named("broken", SETTINGS, world())


def test_every_step_adds_one_thing() -> None:
    assert list(usual("packed").values()) == ["", "order", "backfill", "sharing"]
    assert list(usual("fifo").values()) == ["", "order and backfill", "sharing"]
