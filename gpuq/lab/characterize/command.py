"""Describes measured jobs: `python -m gpuq.lab.characterize.command [--data DIR] [--json] [--out DIR]`, from `gpuq model
characterize`.

It prints a summary or JSON, and with --out writes the plots, `characterization.json` and `characterization.html` into that
folder. Nothing of gpuq's own is changed, and with --data none of it is read. Exit code 2 where there is nothing to describe.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from gpuq.errors import BadInput, Failure, GpuqError
from gpuq.lab.characterize.page import page
from gpuq.lab.characterize.plots import plots
from gpuq.lab.characterize.report import CharacterizationReport, characterize, to_json
from gpuq.lab.characterize.source import from_outcomes, read_folder
from gpuq.lab.characterize.table import Data
from gpuq.lab.characterize.text import text
from gpuq.settings import load

_NAME = "characterization"


def main(arguments: Sequence[str] | None = None) -> int:
    """Describe, and return the process's exit code."""
    asked = _parse(arguments)
    try:
        report = characterize(_record() if asked.data is None else read_folder(asked.data))
        shown = to_json(report) + b"\n" if asked.json else text(report).encode()
        written = [] if asked.out is None else write(report, asked.out)
    except GpuqError as error:
        _print_error(f"gpuq: {error.message}\n  {error.fix}")
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # the user gets a sentence, not a traceback
        if os.environ.get("GPUQ_DEBUG"):
            raise
        _print_error(
            f"gpuq: the data could not be described: {type(error).__name__}: {error}\n  GPUQ_DEBUG=1 shows where."
        )
        return 1
    try:
        sys.stdout.buffer.write(shown)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if written:
        _print_error(f"Wrote {len(written)} files to {asked.out}; begin with {_NAME}.html.")
    return 0


def write(report: CharacterizationReport, folder: Path) -> list[Path]:
    """Write JSON, plots and page into this folder, which is created. The same report gives the same bytes. Raises Failure."""
    with _writing_to(folder):
        folder.mkdir(parents=True, exist_ok=True)  # before the plots are drawn, which takes seconds
    drawn = plots(report)
    files = {f"{_NAME}.json": to_json(report) + b"\n", f"{_NAME}.html": page(report, drawn).encode()}
    files |= {f"{plot.name}.png": plot.png for plot in drawn}
    with _writing_to(folder):
        for name, content in files.items():
            (folder / name).write_bytes(content)
    return [folder / name for name in files]


@contextmanager
def _writing_to(folder: Path) -> Iterator[None]:
    """Raises Failure for an OSError of the block."""
    try:
        yield
    except OSError as error:
        raise Failure(
            f"{folder} cannot be written to: {error.strerror or error}.", fix="Name another folder with --out."
        ) from error


def _record() -> Data:
    """What this gpuq has measured itself. Raises BadInput where there is nothing; it creates no home and no record."""
    from gpuq.adapters.store import open_store
    from gpuq.programs.retrain import read_attempts

    settings = load()
    nothing = BadInput(
        "No finished attempt has been measured yet.",
        fix="Run some jobs first, or describe measured tables with --data DIR.",
    )
    if settings.database_url == f"sqlite:///{settings.home.database}" and not settings.home.database.exists():
        raise nothing
    store = open_store(settings.database_url)
    try:
        outcomes = read_attempts(store, time.time()).outcomes
    finally:
        store.close()
    data = from_outcomes("This site's finished attempts", outcomes)
    if not data.tables and not data.pairs:
        raise nothing
    return data


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="gpuq model characterize", description="Describe measured jobs.")
    parser.add_argument("--data", type=Path, help="folder with the tables; without it the record's finished attempts")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--out", type=Path, help="folder for the plots and the report")
    return parser.parse_args(arguments)


def _print_error(sentence: str) -> None:
    print(sentence, file=sys.stderr)  # noqa: T201 - stdout is for the result


if __name__ == "__main__":
    sys.exit(main())
