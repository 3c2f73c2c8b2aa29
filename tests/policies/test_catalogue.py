"""The catalogue lists every policy with its claims and problems; a broken policy hides no other."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint

import pytest

from gpuq.core.scheduling.policy import Policy, propose_nothing
from gpuq.errors import BadInput
from gpuq.policies import registry
from gpuq.policies.catalogue import catalogue
from gpuq.policies.spec import PolicySpec
from gpuq.settings import Scheduling


def _looks(scheduling: Scheduling) -> Policy:
    assert scheduling.policy_time_limit_s
    assert scheduling.policy
    return propose_nothing


def _lacks(scheduling: Scheduling) -> Policy:
    raise BadInput("it needs scipy.", fix="Install it.")


def _leaves(scheduling: Scheduling) -> Policy:
    sys.exit(3)


SOUND = PolicySpec("does nothing", _looks, starvation_free=False)
LACKING = PolicySpec("would plan", _lacks, extra="train")
LEAVING = PolicySpec("leaves", _leaves)


def test_each_entry_has_its_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"a_sound": "SOUND", "b_lacking": "LACKING", "c_leaving": "LEAVING", "d_gone": "GONE"}
    points = [EntryPoint(name, f"{__name__}:{value}", registry.GROUP) for name, value in values.items()]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)

    sound, lacking, leaving, gone = catalogue(Scheduling())

    assert (sound.name, sound.summary, sound.starvation_free, sound.problem) == ("a_sound", "does nothing", False, None)
    assert sound.source == f"{__name__}:SOUND"
    assert sound.settings == {}, "what every policy has is not its own"
    assert (lacking.extra, lacking.problem) == ("train", "it needs scipy. Install it.")
    assert leaving.problem == "it cannot be made: SystemExit: 3"
    assert gone.summary is None
    assert "AttributeError" in (gone.problem or "")


def test_all_policies_of_gpuq_can_be_loaded() -> None:
    for offer in catalogue(Scheduling()):
        assert offer.summary, offer.problem
        assert "gpuq-daemon" in offer.source
