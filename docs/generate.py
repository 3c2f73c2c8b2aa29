"""Write the state diagram in docs/terms.md from the table of legal steps. Run by path: `python docs/generate.py [--check]`.

The lines between the two marks in docs/terms.md are replaced by a diagram of `gpuq.core.state.transitions.TRANSITIONS`. With
`--check` nothing is written, and the exit code is 1 if the lines differ from the table.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from gpuq.core.state.job import ACTIVE, ENDED, JobState
from gpuq.core.state.transitions import TRANSITIONS, Step

TERMS = Path(__file__).resolve().with_name("terms.md")
_BETWEEN_MARKS = re.compile(r"(<!-- transitions:begin[^\n]*-->\n).*?(<!-- transitions:end -->)", re.DOTALL)
_ORDER = list(JobState)


def main() -> int:
    """The exit code: 0 all is as it should be, 1 it was not and only `--check` was asked, 2 no marks."""
    parser = argparse.ArgumentParser(description="Write the state diagram in docs/terms.md.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if it differs")
    options = parser.parse_args()
    text = TERMS.read_text(encoding="utf-8")
    if len(_BETWEEN_MARKS.findall(text)) != 1:
        sys.stderr.write(f"{TERMS.name} must have the marks transitions:begin and transitions:end once.\n")
        return 2
    wanted = _BETWEEN_MARKS.sub(lambda marks: f"{marks[1]}\n{block()}\n\n{marks[2]}", text)
    if wanted == text:
        return 0
    if options.check:
        sys.stderr.write(f"The diagram in {TERMS.name} is not the table's; run: python docs/generate.py\n")
        return 1
    TERMS.write_text(wanted, encoding="utf-8")
    return 0


def block() -> str:
    """The fenced block."""
    return "\n".join(["```mermaid", "stateDiagram-v2", *(f"    {line}" for line in _lines()), "```"])


def _lines() -> Iterator[str]:
    """Steps that all active states have in common are drawn once, from the box around them."""
    common = {(step, end) for step in Step for end in _ORDER if all(TRANSITIONS.get((s, step)) == end for s in ACTIVE)}
    rest = [
        (start, step, end)
        for (start, step), end in TRANSITIONS.items()
        if (step, end) not in common or start not in ACTIVE
    ]
    rest.sort(key=lambda arrow: (_ORDER.index(arrow[0]), _ORDER.index(arrow[2])))
    yield f"[*] --> {JobState.PENDING}: submit"
    yield "state Active {"
    yield from (f"    {_arrow(*arrow)}" for arrow in rest if arrow[0] in ACTIVE and arrow[2] in ACTIVE)
    yield "}"
    yield from (_arrow(*arrow) for arrow in rest if arrow[0] not in ACTIVE or arrow[2] not in ACTIVE)
    yield from (_arrow("Active", step, end) for step, end in sorted(common, key=lambda one: _ORDER.index(one[1])))
    left = {start for start, _ in TRANSITIONS}
    yield from (f"{state} --> [*]" for state in _ORDER if state in ENDED and state not in left)


def _arrow(start: str, step: Step, end: str) -> str:
    return f"{start} --> {end}: {step}"


if __name__ == "__main__":
    sys.exit(main())
