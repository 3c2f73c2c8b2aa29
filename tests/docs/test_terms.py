"""docs/terms.md defines every public noun of the core, and no other."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def public_classes() -> set[str]:
    modules = (ast.parse(path.read_text()) for path in (ROOT / "gpuq" / "core").rglob("*.py"))
    classes = (node for module in modules for node in module.body if isinstance(node, ast.ClassDef))
    return {node.name for node in classes if not node.name.startswith("_")}


def test_every_public_class_of_the_core_is_in_the_table_and_no_other_is() -> None:
    table = (ROOT / "docs" / "terms.md").read_text().split("## Types of the core")[1]
    # The states of a job have a table and a diagram of their own.
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) | {"JobState"} == public_classes() | {"JobState"}
