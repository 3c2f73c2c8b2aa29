"""Policies are found by name through entry points; what cannot be loaded raises BadInput."""

from importlib.metadata import EntryPoint

import pytest

from gpuq.core.scheduling.policy import propose_nothing
from gpuq.errors import BadInput
from gpuq.policies import registry
from gpuq.policies.lists.packed import SPEC
from gpuq.policies.spec import PolicySpec
from gpuq.settings import Scheduling

LAZY = PolicySpec("never starts anything", lambda scheduling: propose_nothing)


def offer(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    point = EntryPoint("lazy", value, registry.GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: [point] if group == registry.GROUP else [])


def test_the_default_is_packed() -> None:
    assert registry.DEFAULT in registry.names()
    assert registry.spec(Scheduling().policy) is SPEC


def test_entry_point_of_another_package_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, f"{__name__}:LAZY")
    assert registry.names() == ["lazy"]
    assert registry.make(Scheduling(policy="lazy")) is propose_nothing


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("no.such.module:SPEC", "cannot be loaded: ModuleNotFoundError"),
        (f"{__name__}:GONE", "cannot be loaded: AttributeError"),
        (f"{__name__}:offer", "is no PolicySpec"),
    ],
)
def test_broken_entry_point_raises_bad_input(monkeypatch: pytest.MonkeyPatch, value: str, words: str) -> None:
    offer(monkeypatch, value)
    with pytest.raises(BadInput, match=words):
        registry.spec("lazy")


def test_unknown_name_raises_bad_input() -> None:
    with pytest.raises(BadInput, match="no policy `missing`"):
        registry.make(Scheduling(policy="missing"))
