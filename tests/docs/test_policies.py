"""docs/policies.md names every policy that is offered, and its example is a policy that passes the conformance kit."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpuq.lab.sim.conformance import conformance
from gpuq.lab.sim.exercises import exercises
from gpuq.policies import registry
from gpuq.policies.spec import PolicySpec

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs/policies.md").read_text()


def test_every_policy_that_is_offered_has_a_line() -> None:
    table = DOCUMENT.split("## Which there are")[1].split("\n## ")[0]

    assert set(registry.names()) <= set(re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE))


def example() -> PolicySpec:
    found = re.search(r"<!-- example: \S+ -->\n```python\n(.*?)```", DOCUMENT, re.DOTALL)
    assert found is not None
    module: dict[str, object] = {}
    exec(compile(found[1], "smallest_first.py", "exec"), module)
    spec = module["SPEC"]
    assert isinstance(spec, PolicySpec)
    return spec


def test_the_example_passes_a_part_of_the_kit() -> None:
    """The one that has everything in it, as other policies than the default one in tests/policies/test_conformance.py."""
    mixture = next(exercises())
    assert conformance(example(), clock=lambda: 0.0, only=[mixture]) == []


@pytest.mark.soak
def test_the_example_passes_the_whole_kit() -> None:
    assert conformance(example(), clock=lambda: 0.0) == []
