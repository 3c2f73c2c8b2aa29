"""`python -m gpuq.lab.evaluate --singles FILE --pairs FILE`: what `gpuq model evaluate` becomes. Needs no daemon and no home.

Exit code 0 where something was judged, 2 where files or options make no sense.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from gpuq.errors import BadInput, Failure, GpuqError
from gpuq.lab.evaluate.answers import BUDGET
from gpuq.lab.evaluate.holdout import WAYS
from gpuq.lab.evaluate.report import evaluate, lines
from gpuq.lab.measured import read_pairs, read_singles

_REPORT = "Please report this; set GPUQ_DEBUG=1 for the traceback."


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code. Errors are a sentence and its fix on stderr."""
    asked = _parse(arguments)
    try:
        singles = read_singles(asked.singles) if asked.singles else []
        pairs = read_pairs(asked.pairs) if asked.pairs else []
        if not singles and not pairs:
            raise BadInput(
                "there is nothing to judge.", fix="Give --singles FILE, --pairs FILE, or both, with rows in them."
            )
        result = evaluate(singles, pairs, asked.holdout, budget=asked.budget)
    except GpuqError as error:
        return _complain(error)
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if os.environ.get("GPUQ_DEBUG"):
            raise
        return _complain(Failure(f"something unexpected went wrong ({type(error).__name__}: {error}).", fix=_REPORT))
    text = msgspec.json.format(msgspec.json.encode(result)).decode() if asked.json else "\n".join(lines(result))
    sys.stdout.write(text + "\n")
    return 0


def _complain(error: GpuqError) -> int:
    sys.stderr.write(f"gpuq: {error.message}\n  {error.fix}\n")
    return error.exit_code


def _budget(text: str) -> float:
    budget = float(text)
    if not 1 <= budget < math.inf:
        raise argparse.ArgumentTypeError(
            f"{text} is no slowdown budget: write time together / time alone, such as 1.15"
        )
    return budget


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m gpuq.lab.evaluate", description="Judge forecasts on your own data."
    )
    parser.add_argument("--singles", type=Path)
    parser.add_argument("--pairs", type=Path)
    parser.add_argument("--holdout", choices=WAYS, default="model")
    parser.add_argument("--budget", type=_budget, default=BUDGET, metavar="SLOWDOWN")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
