"""A training that is killed, runs out of something or cannot say its word: what served serves on."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import pytest

from gpuq.errors import Failure
from gpuq.learn.serving.shelf import Shelf
from gpuq.programs import retrain
from tests.daemon.nights import NOW, FewRows, command, python, row, train, world
from tests.daemon.record import record_in, settings_in
from tests.learn.world import GIB, Work

# What dies, dies for real: a process of its own, killed at each step that leaves something on the disk.
_PUBLISHES = """
import os, signal, sys
from pathlib import Path
from gpuq.learn.serving.model import from_json
from gpuq.learn.serving.shelf import Shelf

def publish(die_at):
    steps = 0
    def deadly(function):
        def called(*arguments, **named):
            nonlocal steps
            steps += 1
            if steps == die_at:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **named)
        return called
    for name in ("fsync", "rename", "mkdir", "open"):
        setattr(os, name, deadly(getattr(os, name)))
    Shelf(folder).publish(model, {}, {"card.md": b"card"})
    os._exit(0)

folder = Path(sys.argv[1])
model = Shelf(folder).load_current()
for step in range(1, 99):
    child = os.fork()
    if child == 0:
        publish(step)
    _, status = os.waitpid(child, 0)
    shelf = Shelf(folder)
    serving = shelf.load_serving()
    assert serving.model is not None and serving.problem is None, (step, serving)
    assert not [one for one in shelf.status()["versions"] if one["problem"] and "card.json" not in one["problem"]]
    print(step, os.WTERMSIG(status), serving.version)
    if status == 0:
        break
"""


_TRAINS = """import functools, os, resource, signal, sys
from gpuq.learn.training import nightly
from gpuq.programs import retrain
fit = nightly.fit
{}
sys.exit(retrain.main(["--here"]))
"""


def test_killed_at_any_step_of_publishing_a_whole_model_serves(tmp_path: Path):
    settings = settings_in(tmp_path)
    train(settings, world())
    done = python(settings, "-c", _PUBLISHES, str(settings.home.models))
    assert done.returncode == 0, done.stderr
    ends = [line.split() for line in done.stdout.splitlines()]
    assert [end for _, end, _ in ends] == ["9"] * (len(ends) - 1) + ["0"]
    assert len(ends) > 10
    serving = [version for _, _, version in ends]
    assert serving == sorted(serving)
    assert serving[0] == "v0001" < serving[-1]


def test_a_training_that_is_killed_changes_nothing_and_who_watches_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    settings = settings_in(tmp_path)
    record_in(settings, world()).close()
    code = _TRAINS.format("nightly.fit = lambda *_: os.kill(os.getpid(), signal.SIGKILL)")
    monkeypatch.setenv("GPUQ_HOME", str(settings.home.root))
    monkeypatch.setattr(retrain, "python_module", lambda *_: [sys.executable, "-c", code])
    assert retrain.main([]) == 1
    out, err = capfd.readouterr()
    assert (out, Shelf(settings.home.models).versions()) == ("", [])
    assert "was ended by SIGKILL" in err
    assert "still serves" in err


def test_a_training_that_needs_more_memory_than_it_may_changes_nothing_and_says_so(tmp_path: Path):
    settings = settings_in(tmp_path)
    record_in(settings, world()).close()
    code = _TRAINS.format("nightly.fit = lambda *_: bytearray(2 << 30)")
    failed = python(settings, "-c", code, GPUQ_LEARNING_MAX_MEMORY_BYTES=str(1 << 30))
    assert (failed.returncode, failed.stdout) == (1, "")
    assert failed.stderr.startswith("gpuq: The training ran out of memory; it may use 1 GiB.")
    assert "learning.max_memory_bytes" in failed.stderr
    assert Shelf(settings.home.models).versions() == []


def test_a_full_disk_leaves_what_served(tmp_path: Path):
    """The kernel refuses to write more than a little: what was begun is never taken for a model."""
    settings = settings_in(tmp_path)
    record_in(settings, world()).close()
    full = "resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048))"
    # Without plots: the model alone is larger, and is written first.
    undrawn = "retrain.train = functools.partial(retrain.train, draw=False)"
    failed = python(settings, "-c", _TRAINS.format(f"nightly.fit = lambda *a: [{full}, fit(*a)][1]\n{undrawn}"))
    assert (failed.returncode, failed.stdout) == (1, "")
    assert "File too large" in failed.stderr
    assert "Traceback" not in failed.stderr
    shelf = Shelf(settings.home.models)
    assert (shelf.versions(), shelf.current()) == ([], None)


def test_a_training_that_takes_too_long_is_ended_and_says_so(tmp_path: Path):
    settings = settings_in(tmp_path)
    failed = command(settings, GPUQ_LEARNING_MAX_TRAINING_S="0.05")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert "took longer than 0.05 s" in failed.stderr
    assert "learning.max_training_s" in failed.stderr


def test_a_damaged_model_on_the_shelf_is_passed_over_loudly_and_judged_against_the_one_before(tmp_path: Path):
    settings = settings_in(tmp_path)
    store: Any = FewRows(world())
    assert retrain.train(settings, store, NOW, draw=False)["version"] == "v0001"
    chance = random.Random(3)
    store.rows += [row(Work(f"gan{i}", 32, 50.0, 4 * GIB), 100 + i, chance) for i in range(24)]
    assert retrain.train(settings, store, NOW, draw=False)["version"] == "v0002"
    damaged = settings.home.models / "v0002" / "model.json"
    damaged.write_bytes(damaged.read_bytes().replace(b"1", b"2", 1))
    result = retrain.train(settings, store, NOW, draw=False)
    assert result["previous"] == "v0001"
    assert "model.json is not the file that was published" in result["problem"]


def test_without_a_request_to_the_dispatcher_the_new_model_does_not_serve(tmp_path: Path):
    settings = settings_in(tmp_path)
    store: Any = FewRows(world())

    def full(*_: object) -> int:
        raise Failure("The disk that holds the record is full: nothing was recorded.")

    store.add_request = full
    with pytest.raises(Failure):
        retrain.train(settings, store, NOW, draw=False)
    assert Shelf(settings.home.models).current() is None
