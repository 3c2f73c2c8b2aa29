"""The nightly training, a process of its own: `python -m gpuq.daemon.retrain [--rollback] [--json]`.

Arrives: the record's finished attempts. Leaves: a new current version on the shelf and a `model` request for the
dispatcher, or nothing and the reason. One JSON object on stdout, a sentence for people on stderr (not with --json).
Exit code 0 also when nothing was published; above 0 only when it could not be done. One at a time; a crash leaves the
shelf as it was.
"""

from __future__ import annotations

import argparse
import getpass
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from gpuq.adapters.lock import take_lock
from gpuq.adapters.store import open_store
from gpuq.adapters.store.contract import Store
from gpuq.errors import GpuqError
from gpuq.learn.card import card, card_text
from gpuq.learn.outcome import Outcome, outcome_from_rows
from gpuq.learn.score import Judgement, judge
from gpuq.learn.shelf import Shelf
from gpuq.learn.train import fit
from gpuq.learn.transfer.profile import read_folder
from gpuq.settings import Learning, Settings, load

# The newest third of the attempts judges; at least three, or one lucky attempt would decide.
_HELD_OUT_SHARE = 1 / 3
_LEAST_HELD_OUT = 3
# More bad rows than this, and something is wrong with the record itself.
_MOST_UNREADABLE_SHARE = 0.5
# A clock may be off by this much before its times are not believed.
_CLOCK_SLACK_S = 86_400.0


@dataclass(frozen=True)
class Attempts:
    """What the record held: what can be learnt from, oldest end first, and how many rows could not be read."""

    outcomes: tuple[Outcome, ...]
    unreadable: int


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, or roll back; the process's exit code."""
    asked = _parse(arguments)
    try:
        settings = load()
        settings.home.create()
        store = open_store(settings.database_url)
        try:
            result = roll_back(settings, store, time.time()) if asked.rollback else train(settings, store, time.time())
        finally:
            store.close()
    except (GpuqError, OSError, MemoryError) as error:
        _say(
            f"gpuq: {error.message} {error.fix}" if isinstance(error, GpuqError) else f"gpuq: training failed: {error}"
        )
        return error.exit_code if isinstance(error, GpuqError) else 1
    if not asked.json:
        _say(summary(result))
    sys.stdout.buffer.write(msgspec.json.encode(result) + b"\n")
    sys.stdout.flush()
    return 0


def train(settings: Settings, store: Store, now: float) -> dict[str, Any]:
    """Make a candidate, judge it, publish it if it is better. `now` is Unix seconds."""
    lock = take_lock(settings.home.run / "retrain.lock")
    if lock is None:
        return _result(None, "another training is under way", 0, 0)
    with os.fdopen(lock):
        shelf = Shelf(settings.home.models)
        serving = shelf.load_serving()
        attempts = read_attempts(store, now)
        obstacle = _obstacle(attempts, settings.learning)
        if obstacle is not None:
            return _result(serving.version, obstacle, len(attempts.outcomes), 0)
        earlier, held_out = split(attempts.outcomes)
        profiles = read_folder(settings.home.profiles)
        candidate = fit(earlier, settings.learning, profiles)
        known = None
        if serving.model is not None:
            # Refitted on no more than it had seen, so that it does not know the attempts it is judged on.
            until = min(serving.model.trained_until, candidate.trained_until)
            seen = [outcome for outcome in earlier if outcome.ended_at <= until]
            known = fit(seen, settings.learning, profiles) if seen else None
        judgement = judge(earlier, held_out, candidate, known, settings.learning)
        result = _result(serving.version, judgement.reason, len(attempts.outcomes), len(held_out), judgement)
        if judgement.better:
            values = card(candidate, judgement, held_out=len(held_out), at=now, previous=serving.version)
            result["version"] = shelf.publish(candidate, values, card_text(values))
            result["published"] = True
            _tell_dispatcher(store, result["version"], now)
            shelf.prune(settings.learning.keep_versions)
        return result


def roll_back(settings: Settings, store: Store, now: float) -> dict[str, Any]:
    """Serve the version before the current one. Raises Conflict where none is current."""
    shelf = Shelf(settings.home.models)
    previous = shelf.current()
    lock = take_lock(settings.home.run / "retrain.lock")
    if lock is None:
        return _result(previous, "a training is under way", 0, 0)
    with os.fdopen(lock):
        previous = shelf.current()
        version = shelf.rollback()
        _tell_dispatcher(store, version, now)
        result = _result(previous, f"rolled back from {previous} to {version or 'no model'}", 0, 0)
        return {**result, "published": True, "version": version}


def read_attempts(store: Store, now: float) -> Attempts:
    """Every finished attempt once, in the order of their ends.

    Rows from the future or without sense are counted, not used.
    """
    types: dict[str, str] = {device.id: device.type for device in store.devices()}
    found: dict[tuple[int, int], Outcome] = {}
    unreadable = 0
    for job, attempt in store.finished_attempts():
        outcome = outcome_from_rows(job, attempt, types)
        if outcome is None or outcome.ended_at > now + _CLOCK_SLACK_S or not _measured(outcome):
            unreadable += 1
            continue
        found[attempt.job, attempt.number] = outcome
    return Attempts(tuple(sorted(found.values(), key=lambda outcome: outcome.ended_at)), unreadable)


def split(outcomes: Sequence[Outcome]) -> tuple[Sequence[Outcome], Sequence[Outcome]]:
    """(earlier, held out): the held-out ones all ended after the earlier ones."""
    count = max(_LEAST_HELD_OUT, round(len(outcomes) * _HELD_OUT_SHARE))
    return outcomes[:-count], outcomes[-count:]


def summary(result: dict[str, Any]) -> str:
    """The result in a sentence."""
    if result["published"]:
        now, before = result["version"] or "none", result["previous"] or "none"
        return f"Model {now} serves now (before: {before}): {result['reason']}."
    return f"Nothing published; {result['previous'] or 'no model'} serves on: {result['reason']}."


def _obstacle(attempts: Attempts, learning: Learning) -> str | None:
    """Why this history cannot train a model; None if it can."""
    usable, unreadable = len(attempts.outcomes), attempts.unreadable
    if usable + unreadable and unreadable / (usable + unreadable) > _MOST_UNREADABLE_SHARE:
        return f"the history looks damaged: {unreadable} of {usable + unreadable} finished attempts cannot be read"
    least = max(learning.minimum_attempts, 2 * _LEAST_HELD_OUT)
    if usable < least:
        return f"too little history: {usable} finished {_attempts(usable)} measured, {least} needed"
    profiles = {(one.kind, one.peak_utilization_pct, one.peak_memory_bytes) for one in attempts.outcomes}
    if len(profiles) == 1:
        return f"constant history: all {usable} attempts measured the same, so there is nothing to learn"
    return None


def _measured(outcome: Outcome) -> bool:
    return outcome.peak_memory_bytes is not None or outcome.peak_utilization_pct is not None


def _result(
    previous: str | None, reason: str, attempts: int, held_out: int, judgement: Judgement | None = None
) -> dict[str, Any]:
    figures: dict[str, Any] = {"candidate": None, "serving": None}
    if judgement is not None:
        figures = {
            "candidate": msgspec.to_builtins(judgement.candidate),
            "serving": msgspec.to_builtins(judgement.serving),
        }
    return {
        "published": False,
        "version": previous,
        "previous": previous,
        "reason": reason,
        "attempts": attempts,
        "held_out": held_out,
        "figures": figures,
    }


def _tell_dispatcher(store: Store, version: str | None, now: float) -> None:
    store.add_request("model", None, _who(), now, {"version": version})


def _who() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m gpuq.daemon.retrain", description="Train a model, or go back to the last."
    )
    parser.add_argument("--rollback", action="store_true", help="serve the version before the current one")
    parser.add_argument("--json", action="store_true", help="JSON on stdout only, no sentence on stderr")
    return parser.parse_args(arguments)


def _attempts(count: int) -> str:
    return "attempt" if count == 1 else "attempts"


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
