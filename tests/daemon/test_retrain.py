"""The nightly process: publishes what is better, else changes nothing and says why."""

from __future__ import annotations

import fcntl
import json
import math
import os
import random
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpuq.adapters.store import open_store
from gpuq.adapters.store.contract import AttemptRow, JobRow
from gpuq.adapters.store.migrate import upgrade
from gpuq.core.job import JobId
from gpuq.daemon import retrain
from gpuq.errors import Conflict, Failure
from gpuq.home import Home
from gpuq.learn import night
from gpuq.learn.shelf import Shelf
from gpuq.settings import Settings
from tests.daemon.record import fill, record_in, settings_in
from tests.learn.world import GIB, Work, rows

NOW = 10_000_000.0


class FewRows:
    """A store with nothing but finished attempts; remembers requests."""

    def __init__(self, rows: Sequence[tuple[JobRow, AttemptRow]]) -> None:
        self.rows = list(rows)
        self.requests: list[tuple[str, object, Mapping[str, Any]]] = []

    def devices(self) -> list[Any]:
        return []

    def finished_attempts(self, *, since: float = 0.0, limit: int | None = None) -> list[tuple[JobRow, AttemptRow]]:
        return self.rows

    def add_request(self, verb: str, job: JobId | None, by: str, at: float, body: Mapping[str, Any]) -> int:
        self.requests.append((verb, job, body))
        return 1

    def close(self) -> None: ...


def row(work: Work, number: int, chance: random.Random, **actual: Any) -> tuple[JobRow, AttemptRow]:
    return rows(work, number, chance, at=940.0 + 60 * number, lasts=60.0, **actual)


def world(kinds: int = 16, rounds: int = 1, seed: int = 1) -> list[tuple[JobRow, AttemptRow]]:
    chance = random.Random(seed)
    works = [
        Work(f"{name}{i}", 32, level, memory)
        for name, level, memory in (("mobilenet", 20.0, GIB), ("bert", 90.0, 12 * GIB))
        for i in range(kinds)
    ]
    order = chance.sample(works * rounds, len(works) * rounds)
    return [row(work, number, chance) for number, work in enumerate(order, start=1)]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    home = Home(tmp_path / "home")
    home.create()
    return Settings(home=home, redis_url=None, database_url=f"sqlite:///{home.database}")


def train(settings: Settings, rows: Sequence[tuple[JobRow, AttemptRow]], now: float = NOW) -> dict[str, Any]:
    store = FewRows(rows)
    result = retrain.train(settings, store, now, draw=False)  # type: ignore[arg-type]
    assert bool(store.requests) == result["published"]
    return result


def test_a_better_model_is_published_and_the_dispatcher_told(settings: Settings):
    store = FewRows(world())
    result = retrain.train(settings, store, NOW)  # type: ignore[arg-type]
    assert (result["published"], result["version"], result["previous"]) == (True, "v0001", None)
    assert (result["attempts"], result["held_out"]) == (32, 11)
    assert result["figures"]["candidate"]["loss"] < result["figures"]["serving"]["loss"]
    assert store.requests == [("model", None, {"version": "v0001"})]
    shelf = Shelf(settings.home.models)
    serving = shelf.load_current()
    assert serving is not None
    assert serving.version == "v0001"
    card = (settings.home.models / "v0001" / "card.md").read_text()
    assert "# Model v0001" in card
    assert "memory under share" in card
    assert "serves now" in retrain.summary(result)


def test_nothing_new_publishes_nothing(settings: Settings):
    found = world()
    train(settings, found)
    again = train(settings, found)
    assert (again["published"], again["version"], again["previous"]) == (False, "v0001", "v0001")
    assert "no better" in again["reason"]
    assert Shelf(settings.home.models).versions() == ["v0001"]


def test_kinds_that_came_since_make_the_next_version(settings: Settings):
    """The serving model has seen one family; the candidate sees another, and the held-out time is full of it."""
    chance = random.Random(3)
    first = [row(Work(f"mobilenet{i}", 32, 20.0, GIB), i, chance) for i in range(1, 13)]
    then = [row(Work(f"bert{i}", 32, 90.0, 12 * GIB), 20 + i, chance) for i in range(24)]
    assert train(settings, first)["published"]
    result = train(settings, [*first, *then])
    assert (result["published"], result["version"], result["previous"]) == (True, "v0002", "v0001")


def corrupt(kind: str) -> list[tuple[JobRow, AttemptRow]]:
    found = world()
    chance = random.Random(1)
    odd = {"peak_memory_bytes": math.nan, "peak_utilization_pct": "x"}
    return {
        "empty": [],
        "tiny": found[:5],
        "constant": [
            row(Work("a", 8, 50.0, GIB), i, chance, peak_memory_bytes=GIB, peak_utilization_pct=50.0) for i in range(20)
        ],
        "corrupt": [row(Work("a", 8, 50.0, GIB), i, chance, **odd) for i in range(20)],
        "no values": [(job, msgspec.structs.replace(attempt, actual=None)) for job, attempt in found],
        "from the future": [(job, msgspec.structs.replace(attempt, ended_at=9e12)) for job, attempt in found],
        "one row, many times": found[:1] * 50,
    }[kind]


@pytest.mark.parametrize(
    ("history", "reason"),
    [
        ("empty", "too little history: 0 finished attempts"),
        ("tiny", "too little history: 5 finished attempts"),
        ("constant", "constant history"),
        ("corrupt", "damaged"),
        ("no values", "damaged"),
        ("from the future", "damaged"),
        ("one row, many times", "too little history: 1 finished attempt "),
    ],
)
def test_a_history_that_cannot_teach_changes_nothing_and_says_why(settings: Settings, history: str, reason: str):
    train(settings, world())
    result = train(settings, corrupt(history))
    assert (result["published"], result["version"]) == (False, "v0001")
    assert reason in result["reason"]
    assert Shelf(settings.home.models).versions() == ["v0001"]
    assert "Nothing published; v0001 serves on" in retrain.summary(result)


def test_poisoned_attempts_do_not_publish_a_model_that_promises_too_little(settings: Settings):
    """Half the earlier rows lie and say that the large jobs are small; the later ones tell the truth."""
    found = world()
    large = [pair for pair in found if "bert" in pair[0].record.kind]
    lies = [
        (job, msgspec.structs.replace(a, actual={**(a.actual or {}), "peak_memory_bytes": GIB // 2}))
        for job, a in large
    ]
    chance = random.Random(9)
    truth = [row(Work(f"bert{20 + i}", 32, 90.0, 12 * GIB), 100 + i, chance) for i in range(6)]
    assert not train(settings, [*lies, *truth])["published"]


def test_a_training_that_crashes_leaves_the_shelf(settings: Settings, monkeypatch: pytest.MonkeyPatch):
    train(settings, world())

    def die(*_: object) -> None:
        raise MemoryError("out of memory")

    monkeypatch.setattr(night, "fit", die)
    with pytest.raises(MemoryError):
        train(settings, world(seed=2))
    assert Shelf(settings.home.models).current() == "v0001"
    monkeypatch.undo()
    assert train(settings, world())["reason"] != "another training is under way"


def test_only_one_trains_at_a_time(settings: Settings):
    with (settings.home.run / "retrain.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert train(settings, world())["reason"] == "another training is under way"
    assert train(settings, world())["published"]


def test_old_versions_are_cleared_away(settings: Settings):
    shelf = Shelf(settings.home.models)
    train(settings, world())
    model = shelf.load_current()
    assert model is not None
    for _ in range(15):
        shelf.publish(model, {}, {})
    shelf.rollback()
    chance = random.Random(4)
    new = [row(Work(f"gan{i}", 32, 50.0, 4 * GIB), 1000 + i, chance) for i in range(40)]
    assert train(settings, [*world(), *new])["published"]
    assert len(shelf.versions()) == settings.learning.keep_versions


def test_rollback_is_one_command_and_tells_the_dispatcher(settings: Settings):
    train(settings, world())
    store: Any = FewRows([])
    result = retrain.roll_back(settings, store, NOW)
    assert (result["published"], result["version"], result["previous"]) == (True, None, "v0001")
    assert store.requests == [("model", None, {"version": None})]
    with pytest.raises(Conflict):
        retrain.roll_back(settings, store, NOW)


def command(settings: Settings, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    return python(settings, "-m", "gpuq.daemon.retrain", *arguments, **more)


def test_the_command_trains_from_a_real_record(settings: Settings):
    upgrade(settings.database_url)
    store = open_store(settings.database_url)
    fill(store, world())
    done = command(settings)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["published"], result["version"], result["attempts"]) == (True, "v0001", 32)
    assert "Model v0001 serves now" in done.stderr
    asked = [request for request in store.requests(100) if request.verb == "model"]
    assert [request.body for request in asked] == [{"version": "v0001"}]
    back = command(settings, "--rollback", "--json")
    assert (back.returncode, back.stderr) == (0, "")
    assert json.loads(back.stdout)["version"] is None
    failed = command(settings, "--rollback")
    assert failed.returncode == 6
    assert failed.stderr.startswith("gpuq: No model serves")
    assert "Traceback" not in failed.stderr
    store.close()


def test_a_database_that_is_not_set_up_is_a_failure_with_its_fix(settings: Settings):
    failed = command(settings)
    assert (failed.returncode, failed.stdout) == (1, "")
    assert "gpuq db upgrade" in failed.stderr
    assert "Traceback" not in failed.stderr


def test_tensorflow_is_not_loaded_and_serving_needs_no_scikit_learn():
    code = (
        "import sys, gpuq.learn.predictor, gpuq.learn.shelf, gpuq.learn.kind;"
        "assert 'sklearn' not in sys.modules; import gpuq.daemon.retrain; assert 'tensorflow' not in sys.modules;"
        "assert 'sklearn' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# What dies, dies for real: a process of its own, killed at each step that leaves something on the disk.
_PUBLISHES = """
import os, signal, sys
from pathlib import Path
from gpuq.learn.model import from_json
from gpuq.learn.shelf import Shelf

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
_TRAINS = """import os, resource, signal, sys
from gpuq.daemon import retrain
from gpuq.learn import night
fit = night.fit
{}
sys.exit(retrain.main(["--here"]))
"""


def python(settings: Settings, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "GPUQ_HOME": str(settings.home.root), **more}
    environment.pop("GPUQ_DATABASE_URL", None)
    return subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def test_killed_at_any_step_of_publishing_a_whole_model_serves(settings: Settings):
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
    code = _TRAINS.format("night.fit = lambda *_: os.kill(os.getpid(), signal.SIGKILL)")
    monkeypatch.setenv("GPUQ_HOME", str(settings.home.root))
    monkeypatch.setattr(retrain, "python_module", lambda *_: [sys.executable, "-c", code])
    assert retrain.main([]) == 1
    out, err = capfd.readouterr()
    assert (out, Shelf(settings.home.models).versions()) == ("", [])
    assert "was ended by SIGKILL" in err
    assert "serves on" in err


def test_a_training_that_needs_more_memory_than_it_may_changes_nothing_and_says_so(tmp_path: Path):
    settings = settings_in(tmp_path)
    record_in(settings, world()).close()
    code = _TRAINS.format("night.fit = lambda *_: bytearray(2 << 30)")
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
    failed = python(settings, "-c", _TRAINS.format(f"night.fit = lambda *a: [{full}, fit(*a)][1]"))
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


def test_a_dispatcher_that_cannot_be_told_leaves_the_model_that_served(tmp_path: Path):
    settings = settings_in(tmp_path)
    store: Any = FewRows(world())

    def full(*_: object) -> int:
        raise Failure("The disk that holds the record is full: nothing was recorded.")

    store.add_request = full
    with pytest.raises(Failure):
        retrain.train(settings, store, NOW, draw=False)
    assert Shelf(settings.home.models).current() is None


def test_attempts_of_a_type_that_jumped_in_time_do_not_stand_for_the_latest(settings: Settings):
    found = world()
    shifted = [
        (job, msgspec.structs.replace(attempt, started_at=1.0, ended_at=2.0)) if n % 5 == 0 else (job, attempt)
        for n, (job, attempt) in enumerate(found)
    ]
    assert train(settings, shifted)["misdated"] == 7
