"""The rows of the campaign: each repeats one story, with chances from a seed, and writes down what came of each repetition.

The lines of a row are kept in `docs/measurements/fleet/ROW.jsonl`, and a repetition that stands there is not run again. So a
row that was interrupted goes on where it was, also in another checkout, and `--count` may grow. `python -m tests.fleet.rows`
prints what all rows found. A repetition that had a fault fails its row until its line says under `mended` what was wrong, and
where it was mended.
"""

from __future__ import annotations

import json
import math
import os
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
FOLDER = ROOT / "docs/measurements/fleet"
PRODUCT = ("gpuq", "workers", "migrations", "systemd")
# Of a line, what is no figure of the story.
_ABOUT = frozenset({"number", "seed", "times", "took_s", "load", "commit", "fault", "mended"})


@dataclass(frozen=True)
class Row:
    """One row of the campaign, with `count` repetitions in all."""

    name: str
    count: int
    seed: int
    budget_s: float = math.inf
    """No repetition is begun after so long; the row goes on in the next run."""
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

        `story` returns its figures, and raises if something is wrong; then the row ends. This fails if any repetition of the
        row, also of an earlier run, had a fault that was not mended, or if the 99th percentile of a figure is above its limit
        in `p99`.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        lines = read(self.path)
        until = time.monotonic() + self.budget_s
        while (left := self.count - sum(line["times"] for line in lines)) > 0 and time.monotonic() < until:
            number, times, began = len(lines), min(left, at_once), time.monotonic()
            line: dict[str, Any] = {"number": number, "seed": self.seed, "commit": commit(), "times": times}
            fault: Exception | None = None
            try:  # a repetition that is interrupted leaves no line
                line |= story(random.Random(f"{self.name} {self.seed} {number}"), times)
            except Exception as error:  # noqa: BLE001 - raised again below
                fault, line["fault"] = error, f"{type(error).__name__}: {error}"[:2000]
            line |= {"took_s": round(time.monotonic() - began, 1), "load": round(os.getloadavg()[0], 1)}
            lines.append(line)
            with self.path.open("a") as file:
                file.write(json.dumps(line) + "\n")
            if fault is not None:
                raise fault
        print("", *described(self.name, lines), sep="\n")
        assert not [line for line in lines if "fault" in line and "mended" not in line]
        for name, most in (p99 or {}).items():
            values = [line[name] for line in lines if name in line]
            assert values, f"no {name} was measured"
            assert percentile(values, 99) <= most, name


def read(path: Path) -> list[dict[str, Any]]:
    """The repetitions that stand in the file of a row."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@cache
def commit() -> str:
    """The last commit that changed the product, with a + if something of it was changed since."""

    def git(*words: str) -> str:
        words = ("git", *words, "--", *PRODUCT)
        return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()

    return git("log", "-1", "--format=%h", "--abbrev=8") + "+" * bool(git("status", "--porcelain"))


def described(name: str, lines: Sequence[dict[str, Any]]) -> list[str]:
    """What a row found: repetitions, faults with their upper bound, and of each figure the median, 99th percentile and most."""
    failed = [line for line in lines if "fault" in line]
    left = [line for line in failed if "mended" not in line]
    times = sum(line["times"] for line in lines if "fault" not in line)
    bound = f" (95%: at most {3 / times:.2g} of all)" if times and not left else ""
    of = {word: ", ".join(sorted({str(line[word]) for line in lines})) for word in ("seed", "commit")}
    loads = [line["load"] for line in lines if "load" in line]
    load = f", load {min(loads):g} to {max(loads):g}" if loads else ""
    faults = f"{len(left)} faults{bound}" + f", {len(failed) - len(left)} mended" * (len(left) < len(failed))
    found = [f"{name}: {times} times, {faults}; seed {of['seed']}, commit {of['commit']}{load}"]
    found += [
        f"  fault in {line['number']}: {line['fault'].splitlines()[0]}"
        + (f"; mended: {line['mended']}" if "mended" in line else "")
        for line in failed
    ]
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
