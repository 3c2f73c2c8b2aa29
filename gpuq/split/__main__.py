"""`gpuq split check | predict | run | search LAUNCH.toml`: the process that the verb becomes."""

from __future__ import annotations

import argparse
import errno
import json
import os
import sys
from pathlib import Path

import numpy as np

from gpuq.errors import BadInput, Failure, GpuqError
from gpuq.home import Home
from gpuq.split import decide
from gpuq.split.history import LaunchHistory
from gpuq.split.launch import KernelLaunch, compiled, load
from gpuq.split.parts import PreparedLaunch
from gpuq.split.predict import predict
from gpuq.split.search import search
from gpuq.split.verdict import Correctness

Facts = dict[str, object]


def main(words: list[str] | None = None) -> int:
    """Do what the first word says. Gives the exit code; errors are one sentence and the fix."""
    parser = argparse.ArgumentParser(prog="gpuq split")
    parser.add_argument("what", choices=["check", "predict", "run", "search"])
    parser.add_argument("launch", type=Path)
    parser.add_argument("--limit-s", type=float, default=600.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(words)
    try:
        launch = load(options.launch)
        if len(launch.devices) < 2:
            raise BadInput(
                f"{options.launch} names {len(launch.devices)} devices.", fix="Name two in [[devices]]: docs/split.md."
            )
        history = LaunchHistory(Home.from_environment().root / "split")
        facts = {"check": _check, "predict": _predict, "run": _run, "search": _search}[options.what](
            launch, history, options.limit_s
        )
    except GpuqError as error:
        print(f"gpuq: {error.message}\n  {error.fix}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        failure = Failure(f"{error.filename or options.launch}: {error.strerror}.")
        print(f"gpuq: {failure.message}\n  {failure.fix}", file=sys.stderr)
        return failure.exit_code
    if options.json:
        print(json.dumps(facts))
    else:
        width = max(map(len, facts))
        print("\n".join(f"{name:<{width}}  {'–' if value is None else value}" for name, value in facts.items()))
    return 0


def _check(launch: KernelLaunch, history: LaunchHistory, limit_s: float) -> Facts:
    launch = compiled(launch, launch.devices)
    verdict = decide.verdict_of(launch, launch.devices, history)
    if verdict.answer is not Correctness.CHECK:
        return {"verdict": str(verdict.answer), "reason": verdict.reason, "dimension": verdict.dimension}
    wrong = decide.checked(launch, verdict, launch.devices, history, limit_s)
    return {
        "verdict": "refused" if wrong else "checked",
        "reason": wrong or verdict.reason,
        "dimension": verdict.dimension,
    }


def _predict(launch: KernelLaunch, history: LaunchHistory, limit_s: float) -> Facts:
    launch = compiled(launch, launch.devices)
    verdict = decide.verdict_of(launch, launch.devices, history)
    if verdict.answer is Correctness.REFUSED:
        return {"verdict": "refused", "reason": verdict.reason}
    expected = predict(launch, verdict, launch.devices, history, limit_s=limit_s)
    return {
        "share": _percent(expected.share),
        "interval": " to ".join(_percent(one) for one in expected.interval),
        "time / best": f"{expected.over_best:.2f}",
        "evidence": expected.evidence,
    }


def _run(launch: KernelLaunch, history: LaunchHistory, limit_s: float) -> Facts:
    for path in launch.outputs.values():
        _must_be_writable(path)
    outcome = decide.run(launch, launch.devices, history, limit_s=limit_s)
    for name, path in launch.outputs.items():
        np.save(path, outcome.result.buffers[name])
    return {
        "run": outcome.how,
        "reason": outcome.why,
        "seconds": round(outcome.result.seconds, 4),
        "share": " ".join(_percent(one) for one in outcome.result.share),
        "chunks": " ".join(map(str, outcome.result.chunks)),
    }


def _must_be_writable(path: Path) -> None:
    """Raises OSError before the run where its output could not be written after it."""
    place = path if path.exists() else path.parent
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not os.access(place, os.W_OK):
        code = errno.EACCES if place.exists() else errno.ENOENT
        raise OSError(code, os.strerror(code), str(path))


def _search(launch: KernelLaunch, history: LaunchHistory, limit_s: float) -> Facts:
    """The best static share, the devices alone, and guided chunks beside them."""
    launch = compiled(launch, launch.devices)
    verdict = decide.verdict_of(launch, launch.devices, history)
    if verdict.answer is not Correctness.PROVEN:
        raise BadInput(
            f"only a proven launch is searched: {verdict.reason}.", fix="`gpuq split check` tells the verdict."
        )

    with PreparedLaunch(launch, verdict, launch.devices[:2], limit_s=limit_s) as prepared:
        measured = search(prepared)
        guided = min(prepared.run().seconds for _ in range(3))
    best = min(measured, key=measured.__getitem__)
    return {
        "best share": _percent(best / 100),
        "seconds": round(measured[best], 4),
        "first device alone": round(measured[100], 4),
        "second device alone": round(measured[0], 4),
        "guided chunks": round(guided, 4),
        "guided / best": f"{guided / measured[best]:.3f}",
    }


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"


if __name__ == "__main__":
    sys.exit(main())
