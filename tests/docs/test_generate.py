"""The state diagram in the docs is the table of legal steps, and says so when it is not."""

import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

from gpuq.core.state.job import ACTIVE, JobState
from gpuq.core.state.transitions import TRANSITIONS, Step

DOCS = Path(__file__).resolve().parents[2] / "docs"
ARROW = re.compile(r"^\s+(\w+) --> (\w+): (.+)$", re.MULTILINE)


def check(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(folder / "generate.py"), "--check"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_diagram_in_terms_is_the_tables():
    done = check(DOCS)
    assert done.returncode == 0, done.stderr


def test_a_diagram_that_lacks_a_step_is_noticed(tmp_path):
    for name in ("generate.py", "terms.md"):
        shutil.copy(DOCS / name, tmp_path)
    terms = tmp_path / "terms.md"
    terms.write_text(terms.read_text().replace("PENDING --> HELD: hold", ""))
    done = check(tmp_path)
    assert done.returncode == 1
    assert "python docs/generate.py" in done.stderr


def test_the_arrows_drawn_are_the_steps_of_the_table_no_more_and_no_less():
    """Reading the drawing back, the box around the active states included, gives the table."""
    drawn = {}
    for start, end, step in ARROW.findall(runpy.run_path(str(DOCS / "generate.py"))["block"]()):
        for state in ACTIVE if start == "Active" else [JobState(start)]:
            drawn[state, Step(step)] = JobState(end)
    assert drawn == dict(TRANSITIONS)
