"""docs/terms.md defines every public noun of the core, and no other; no public noun of the product stands for two things."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def public_classes(folder: str) -> Iterator[str]:
    for path in (ROOT / folder).rglob("*.py"):
        if not path.is_relative_to(ROOT / "gpuq/lab"):
            yield from re.findall(r"^class ([^\W_]\w*)", path.read_text(), re.MULTILINE)


def test_every_public_class_of_the_core_is_in_the_table_and_no_other_is() -> None:
    table = (ROOT / "docs" / "terms.md").read_text().split("## Types of the core")[1]
    # The states of a job have a table and a diagram of their own.
    defined = set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))
    assert defined | {"JobState"} == set(public_classes("gpuq/core")) | {"JobState"}


def test_no_name_of_a_public_class_stands_twice() -> None:
    names = Counter([*public_classes("gpuq"), *public_classes("workers")])
    assert {name for name, count in names.items() if count > 1} == set()
