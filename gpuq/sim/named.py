"""Contenders by name: the rivals, the parts of a policy by themselves, and every policy that is installed."""

from __future__ import annotations

from dataclasses import replace

from gpuq.policies import registry
from gpuq.settings import Settings
from gpuq.sim.contender import Contender
from gpuq.sim.scenario import Scenario


def contender_named(name: str, settings: Settings, scenario: Scenario) -> Contender:  # noqa: ARG001
    """The contender, held to these settings. Raises BadInput for a name that nobody offers."""
    scheduling = replace(settings.scheduling, policy=name)
    return Contender(name, registry.make(scheduling), settings.admission)
