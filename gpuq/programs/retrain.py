"""The nightly training, a process of its own: `python -m gpuq.programs.retrain [--rollback] [--json]`.

It trains on the record's finished attempts. A better model becomes the current version on the shelf, and a `model` request
tells the dispatcher; else nothing changes. One JSON object goes to stdout, a sentence to stderr (not with --json). The exit
code is 0 also when nothing was published, above 0 only when the training could not be done. Only one training runs at a time,
and a crash leaves the shelf as it was.

The work is done in a child process with limits on memory and time, so that this process can report whatever happens to it.
"""

from __future__ import annotations

import argparse
import gc
import os
import resource
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from gpuq.adapters.lock import take_lock
from gpuq.adapters.supervise import python_module
from gpuq.errors import Failure, GpuqError
from gpuq.programs.user import user_name
from gpuq.settings import Learning, Settings, load

# The process that only waits for its child needs no record and no numpy: what does is imported in the functions that use it.
if TYPE_CHECKING:
    from gpuq.adapters.store.contract import Store
    from gpuq.learn.history.quarantine import TrainingSet
    from gpuq.learn.serving.model import Model
    from gpuq.learn.serving.shelf import Shelf
    from gpuq.learn.training.score import Judgement

MODULE = "gpuq.programs.retrain"


class TrainingFailed(Failure):
    """The training could not be done; the model that served still serves."""

    fix = "The current model still serves; nothing was changed. `gpuq doctor` checks the disk and the record."


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, or roll back, and return the process's exit code."""
    asked = _parse(arguments)
    try:
        settings = load()
        settings.home.create()
        if not (asked.rollback or asked.here):
            return _supervise(settings.learning, ["--json"] if asked.json else [])
        if asked.here:
            resource.setrlimit(resource.RLIMIT_DATA, (settings.learning.max_memory_bytes,) * 2)
        result = _work(settings, rollback=asked.rollback)
    except GpuqError as error:
        _print_error(f"gpuq: {error.message} {error.fix}")
        return error.exit_code
    if not asked.json:
        _print_error(summary(result))
    sys.stdout.buffer.write(msgspec.json.encode(result) + b"\n")
    sys.stdout.flush()
    gc.freeze()  # otherwise the last collection looks through all of scikit-learn and matplotlib
    return 0


def _supervise(learning: Learning, arguments: Sequence[str]) -> int:
    """Train in a child process. Returns its exit code; raises TrainingFailed where it was killed or took too long."""
    child = subprocess.Popen(python_module(MODULE, "--here", *arguments))
    signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    try:
        code = child.wait(learning.max_training_s)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
        raise TrainingFailed(
            f"The training took longer than {learning.max_training_s:g} s and was ended.",
            fix="The current model still serves. Raise `learning.max_training_s` if the machine is slow.",
        ) from None
    if code < 0:
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        raise TrainingFailed(
            f"The training was ended by {signal.Signals(-code).name}; it had used {peak / 2**30:.1f} GiB of memory.",
            fix="The current model still serves. If the system was short of memory, lower `learning.max_memory_bytes`.",
        )
    return code


def _work(settings: Settings, *, rollback: bool) -> dict[str, Any]:
    """Train or roll back in this process. Every error is raised as a GpuqError."""
    from gpuq.adapters.store import open_store

    try:
        store = open_store(settings.database_url)
        try:
            return (roll_back if rollback else train)(settings, store, time.time())
        finally:
            store.close()
    except GpuqError:
        raise
    except MemoryError as error:
        limit = settings.learning.max_memory_bytes
        raise TrainingFailed(
            f"The training ran out of memory; it may use {limit / 2**30:.3g} GiB.",
            fix="The current model still serves. Raise `learning.max_memory_bytes`, or let it learn from a shorter past.",
        ) from error
    except Exception as error:
        # Any error of a library: a sentence with the line, so that it can be reported.
        last = traceback.extract_tb(error.__traceback__)[-1]
        location = f"{Path(last.filename).name}:{last.lineno}"
        raise TrainingFailed(f"The training failed ({type(error).__name__} at {location}): {error}") from error


def train(settings: Settings, store: Store, now: float, *, draw: bool = True) -> dict[str, Any]:
    """Train a candidate, judge it, and publish it if it is better. `now` is Unix seconds; `draw`: add plots to its card."""
    from gpuq.learn.serving.shelf import Shelf
    from gpuq.learn.training import nightly
    from gpuq.learn.training.card import card, card_files
    from gpuq.learn.transfer.profile import read_folder

    lock = take_lock(settings.home.run / "retrain.lock")
    if lock is None:
        return _result(None, "another training is under way")
    with os.fdopen(lock):
        shelf = Shelf(settings.home.models)
        serving = shelf.load_serving()
        attempts = read_attempts(store, now)
        obstacle = nightly.obstacle(attempts, settings.learning)
        if obstacle is not None:
            return _result(serving.version, obstacle, attempts)
        profiles = read_folder(settings.home.profiles)
        trained = nightly.train(attempts, serving.model, settings.learning, settings.admission, profiles)
        judgement, held_out = trained.judgement, trained.held_out
        result = _result(serving.version, judgement.reason, attempts, judgement, held_out=len(held_out))
        if serving.problem is not None:
            result["problem"] = serving.problem
        if judgement.better:
            values = card(trained.candidate, judgement, attempts, held_out=held_out, at=now, previous=serving.version)
            files = card_files(values, judgement.rows if draw else ())
            result["version"] = _publish(shelf, store, trained.candidate, values, files, now)
            result["published"] = True
            shelf.prune(settings.learning.keep_versions)
        return result


def _publish(
    shelf: Shelf, store: Store, model: Model, values: dict[str, Any], files: dict[str, bytes], now: float
) -> str:
    """Put the model on the shelf and send a request to the dispatcher: both, or neither."""
    with _served_before_if_it_fails(shelf):
        version = shelf.publish(model, values, files)
        _notify_dispatcher(store, version, now)
    return version


@contextmanager
def _served_before_if_it_fails(shelf: Shelf) -> Iterator[None]:
    """Serve the present version again if the request to the dispatcher fails: else it would serve another one than the API."""
    before = shelf.current()
    try:
        yield
    except BaseException:
        shelf.serve(before)
        raise


def roll_back(settings: Settings, store: Store, now: float) -> dict[str, Any]:
    """Make the version before the current one current. Raises Conflict where none is current."""
    from gpuq.learn.serving.shelf import Shelf

    shelf = Shelf(settings.home.models)
    previous = shelf.current()
    lock = take_lock(settings.home.run / "retrain.lock")
    if lock is None:
        return _result(previous, "a training is under way")
    with os.fdopen(lock):
        previous = shelf.current()
        with _served_before_if_it_fails(shelf):
            version = shelf.rollback()
            _notify_dispatcher(store, version, now)
        result = _result(previous, f"rolled back from {previous} to {version or 'no model'}")
        return {**result, "published": True, "version": version}


def read_attempts(store: Store, now: float) -> TrainingSet:
    """The record's finished attempts that training may use, each once, in the order of their ends."""
    from gpuq.learn.history.quarantine import select_training_set

    devices = store.devices()
    memory: dict[str, int] = {}
    for device in devices:
        memory[device.type] = max(memory.get(device.type, 0), device.total_memory)
    return select_training_set(store.finished_attempts(), {device.id: device.type for device in devices}, memory, now)


def summary(result: dict[str, Any]) -> str:
    """The result in a sentence."""
    if result["published"]:
        now, before = result["version"] or "none", result["previous"] or "none"
        return f"Model {now} serves now (before: {before}): {result['reason']}."
    return f"Nothing published; {result['previous'] or 'no model'} still serves: {result['reason']}."


def _result(
    previous: str | None,
    reason: str,
    attempts: TrainingSet | None = None,
    judgement: Judgement | None = None,
    held_out: int = 0,
) -> dict[str, Any]:
    plain = msgspec.to_builtins
    return {
        "published": False,
        "version": previous,
        "previous": previous,
        "reason": reason,
        "attempts": len(attempts.outcomes) if attempts else 0,
        "left_out": dict(attempts.left_out) if attempts else {},
        "misdated": attempts.misdated if attempts else 0,
        "held_out": held_out,
        "figures": {
            "candidate": plain(judgement.candidate) if judgement else None,
            "serving": plain(judgement.serving) if judgement else None,
        },
        "guards": plain(judgement.guards) if judgement else [],
    }


def _notify_dispatcher(store: Store, version: str | None, now: float) -> None:
    store.add_request("model", None, user_name(), now, {"version": version})


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m gpuq.programs.retrain", description="Train a model, or go back to the last."
    )
    parser.add_argument("--rollback", action="store_true", help="serve the version before the current one")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="JSON on stdout only, no sentence on stderr")
    return parser.parse_args(arguments)


def _print_error(text: str) -> None:
    sys.stderr.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
