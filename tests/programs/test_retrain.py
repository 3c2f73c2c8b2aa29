"""The nightly process: publishes what is better, else changes nothing and says why."""

from __future__ import annotations

import fcntl
import json
import math
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from gpuq.adapters.store import open_store
from gpuq.adapters.store.row_types import AttemptRow, JobRow
from gpuq.errors import Conflict, Unreachable
from gpuq.home import Home
from gpuq.learn.serving.shelf import Shelf
from gpuq.learn.training import nightly
from gpuq.programs import retrain
from gpuq.settings import Settings
from tests.daemon.nights import NOW, FewRows, command, row, train, world
from tests.daemon.record import fill
from tests.learn.world import GIB, Work
from tests.support.sqlite_record import make_record


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    home = Home(tmp_path / "home")
    home.create()
    return Settings(home=home, redis_url=None, database_url=f"sqlite:///{home.database}")


@pytest.fixture(scope="module")
def first_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shelf with the model that `world` gives, for tests in which it only has to be there."""
    home = Home(tmp_path_factory.mktemp("first") / "home")
    home.create()
    found = Settings(home=home, redis_url=None, database_url=f"sqlite:///{home.database}")
    assert train(found, world())["version"] == "v0001"
    return home.models


def test_a_better_model_is_published_and_requested_of_the_dispatcher(settings: Settings):
    store = FewRows(world())
    result = retrain.train(settings, store, NOW, draw=False)  # type: ignore[arg-type]
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
def test_a_history_that_cannot_teach_changes_nothing_and_says_why(
    settings: Settings, first_models: Path, history: str, reason: str
):
    shutil.copytree(first_models, settings.home.models, symlinks=True, dirs_exist_ok=True)
    result = train(settings, corrupt(history))
    assert (result["published"], result["version"]) == (False, "v0001")
    assert reason in result["reason"]
    assert Shelf(settings.home.models).versions() == ["v0001"]
    assert "Nothing published; v0001 still serves" in retrain.summary(result)


def test_poisoned_attempts_do_not_publish_a_model_that_promises_too_little(settings: Settings):
    """Half the earlier rows lie and say that the large jobs are small; the later ones tell the truth."""
    found = world()
    large = [pair for pair in found if "bert" in pair[0].record.kind]
    lies = [
        (job, msgspec.structs.replace(a, actual=msgspec.structs.replace(a.actual, peak_memory_bytes=GIB // 2)))
        for job, a in large
    ]
    chance = random.Random(9)
    truth = [row(Work(f"bert{20 + i}", 32, 90.0, 12 * GIB), 100 + i, chance) for i in range(6)]
    assert not train(settings, [*lies, *truth])["published"]


def test_a_training_that_crashes_leaves_the_shelf(settings: Settings, monkeypatch: pytest.MonkeyPatch):
    train(settings, world())

    def die(*_: object) -> None:
        raise MemoryError("out of memory")

    monkeypatch.setattr(nightly, "fit", die)
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


def test_a_rollback_of_which_the_dispatcher_hears_nothing_changes_nothing(settings: Settings):
    """Else the API would show the forecasts of another model than the one that admits jobs."""
    train(settings, world())

    class Away(FewRows):
        def add_request(self, *_: object, **__: object) -> None:
            raise Unreachable("The database does not answer.")

    with pytest.raises(Unreachable):
        retrain.roll_back(settings, cast(Any, Away([])), NOW)
    assert Shelf(settings.home.models).current() == "v0001"


def test_the_command_trains_from_a_real_record(settings: Settings):
    store = open_store(make_record(settings.home.database))
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
        "import sys, gpuq.learn.serving.predictor, gpuq.learn.serving.shelf, gpuq.learn.features.kind;"
        "assert 'sklearn' not in sys.modules;"
        "import gpuq.programs.retrain, gpuq.learn.training.nightly, gpuq.learn.training.card;"
        "assert 'tensorflow' not in sys.modules;"
        "assert 'sklearn' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_attempts_of_a_type_that_jumped_in_time_do_not_stand_for_the_latest(settings: Settings):
    found = world()
    shifted = [
        (job, msgspec.structs.replace(attempt, started_at=1.0, ended_at=2.0)) if n % 5 == 0 else (job, attempt)
        for n, (job, attempt) in enumerate(found)
    ]
    assert train(settings, shifted)["misdated"] == 7
