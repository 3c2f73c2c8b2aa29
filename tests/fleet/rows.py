"""The rows of the campaign: each repeats one story, with chances from a seed, and writes down what came of each repetition.

The lines of a row are kept in `build/fleet/ROW.jsonl`, and a repetition that stands there is not run again. So a row that was
interrupted goes on where it was, and `--count` may grow. `python -m tests.fleet.rows` prints what all rows found.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "fleet"
# Of a line, what is no figure of the story.
_ABOUT = frozenset({"number", "seed", "times", "took_s", "commit", "fault"})


@dataclass(frozen=True)
class Row:
    """One row of the campaign, with `count` repetitions in all."""

    name: str
    count: int
    seed: int
    folder: Path = FOLDER

    @property
    def path(self) -> Path:
        return self.folder / f"{self.name}.jsonl"

    def repeat(
        self,
        story: Callable[[random.Random, int], dict[str, Any]],
        *,
        at_once: int = 1,
        p99: Mapping[str, float] | None = None,
    ) -> None:
        """Run what is left of the row: `story(chance, times)` until it was run `count` times in all, up to `at_once` in a call.

        `story` returns its figures, and raises if something is wrong; then the row ends. This fails if any repetition of the row,
        also of an earlier run, had a fault, or if the 99th percentile of a figure is above its limit in `p99`.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        lines = read(self.path)
        while (left := self.count - sum(line["times"] for line in lines)) > 0:
            number, times, began = len(lines), min(left, at_once), time.monotonic()
            line: dict[str, Any] = {"number": number, "seed": self.seed, "commit": commit(), "times": times}
            try:
                line |= story(random.Random(f"{self.name} {self.seed} {number}"), times)
            except Exception as error:
                line["fault"] = f"{type(error).__name__}: {error}"[:4000]
                raise
            finally:
                line["took_s"] = round(time.monotonic() - began, 1)
                lines.append(line)
                with self.path.open("a") as file:
                    file.write(json.dumps(line) + "\n")
        print("", *described(self.name, lines), sep="\n")
        assert not [line for line in lines if "fault" in line]
        for name, most in (p99 or {}).items():
            values = [line[name] for line in lines if name in line]
            assert values, f"no {name} was measured"
            assert percentile(values, 99) <= most, name


def read(path: Path) -> list[dict[str, Any]]:
    """The repetitions that stand in the file of a row."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@cache
def commit() -> str:
    """The commit that is checked out, with a + if something was changed since."""
    found = subprocess.run(
        ["git", "describe", "--always", "--dirty=+", "--exclude=*"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.strip()


def described(name: str, lines: Sequence[dict[str, Any]]) -> list[str]:
    """What a row found: repetitions, faults with their upper bound, and of each figure the median, 99th percentile and most."""
    failed = [line for line in lines if "fault" in line]
    times = sum(line["times"] for line in lines)
    bound = f" (95%: at most {3 / times:.2g} of all)" if lines and not failed else ""
    of = {word: ", ".join(sorted({str(line[word]) for line in lines})) for word in ("seed", "commit")}
    found = [f"{name}: {times} times, {len(failed)} faults{bound}; seed {of['seed']}, commit {of['commit']}"]
    found += [f"  fault in {line['number']}: {line['fault'].splitlines()[0]}" for line in failed]
    figures: dict[str, list[float]] = {}
    for line in lines:
        for key, value in line.items():
            if key not in _ABOUT and isinstance(value, int | float):
                figures.setdefault(key, []).append(value)
    for key, values in figures.items():
        middle, high, most = (percentile(values, per_cent) for per_cent in (50, 99, 100))
        found.append(f"  {key}: sum {sum(values):g}, median {middle:g}, p99 {high:g}, most {most:g} (n={len(values)})")
    return found


def percentile(values: Sequence[float], per_cent: int) -> float:
    """The smallest of the values that is not exceeded by `per_cent` of them; 100 is the largest."""
    return sorted(values)[max(0, -(-len(values) * per_cent // 100) - 1)]


def main() -> int:
    """Print what all rows found."""
    for path in sorted(FOLDER.glob("*.jsonl")):
        print("\n".join(described(path.stem, read(path))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
