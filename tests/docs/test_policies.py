"""docs/policies.md names every policy that is offered, and its example is a policy that passes the conformance kit."""

from __future__ import annotations

import re
from pathlib import Path

from gpuq.lab.sim.conformance import conformance
from gpuq.policies import registry
from gpuq.policies.spec import PolicySpec

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs/policies.md").read_text()


def test_every_policy_that_is_offered_has_a_line() -> None:
    table = DOCUMENT.split("## Which there are")[1].split("\n## ")[0]

    assert set(registry.names()) <= set(re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE))


def test_the_example_is_a_policy_and_keeps_what_it_must() -> None:
    found = re.search(r"<!-- example: \S+ -->\n```python\n(.*?)```", DOCUMENT, re.DOTALL)
    assert found is not None
    module: dict[str, object] = {}
    exec(compile(found[1], "smallest_first.py", "exec"), module)
    spec = module["SPEC"]

    assert isinstance(spec, PolicySpec)
    assert conformance(spec, clock=lambda: 0.0) == []
