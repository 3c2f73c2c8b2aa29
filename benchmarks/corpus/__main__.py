"""`python -m benchmarks.corpus run [SCRIPT...]` measures the corpus and writes the table; `judge` plays it and prints figures.

`run` takes some ten minutes on two quiet cores, with every script's run alone on a core. `--python` names an interpreter that
has PyTorch, for the three scripts that need it; without it they are skipped, and the table keeps what it has of them.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from benchmarks.corpus.settings import SETTINGS, UNSEEN
from benchmarks.corpus.table import TABLE, read, write


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.corpus", description=__doc__)
    parser.add_argument("what", choices=("run", "judge"))
    parser.add_argument("scripts", nargs="*", metavar="SCRIPT", help="only these")
    parser.add_argument("--python", default=sys.executable, help="an interpreter with PyTorch")
    parser.add_argument("--devices", type=int, default=2, help="CPU devices of one core (default: 2)")
    parser.add_argument("--table", type=Path, default=TABLE)
    asked = parser.parse_args()
    if unknown := sorted(set(asked.scripts) - set(SETTINGS)):
        parser.error(f"there is no script {unknown[0]!r}; there are: {', '.join(SETTINGS)}")
    names = asked.scripts or list(SETTINGS)
    # Jobs run in a folder of their own. A link is not resolved, for the interpreter of an environment is one.
    asked.python = str(Path(asked.python).absolute())
    return _run(names, asked) if asked.what == "run" else _judge(names, asked)


def _run(names: list[str], asked: argparse.Namespace) -> int:
    from benchmarks.corpus.measure import measure, runnable

    able, skipped = runnable(names, asked.python)
    if skipped:
        print(f"skipped: {', '.join(skipped)}: no PyTorch in {asked.python}; name one that has it with --python")
    started = time.monotonic()
    rows = list(measure(able, asked.python, asked.devices))
    kept = [row for row in read(asked.table) if row.script not in able] if asked.table.exists() else []
    write([*kept, *rows], asked.table)
    expected = sum(len(SETTINGS[name]) for name in able)
    print(f"{len(rows)} of {expected} settings measured in {time.monotonic() - started:.0f} s: {asked.table}")
    return 0 if len(rows) == expected else 1


def _judge(names: list[str], asked: argparse.Namespace) -> int:
    from benchmarks.corpus.judge import judge, report

    rows = [row for row in read(asked.table) if row.script in names]
    for title, unseen in (("scripts that the rules were settled on", False), ("scripts written after that", True)):
        some = [row for row in rows if (row.script in UNSEEN) is unseen]
        if some:
            print(f"{title}:", *report(judge(some)), "", sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
