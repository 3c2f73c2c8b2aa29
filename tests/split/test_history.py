import json
import math
from concurrent.futures import ThreadPoolExecutor

import pytest

from gpuq.split.history import LaunchHistory, device_names
from gpuq.split.launch import OpenClDevice
from tests.split.test_launch import load, written

DEVICES = (OpenClDevice(cores=(0,)), OpenClDevice(cores=(1,)))


def test_an_entry_is_kept_for_its_launch_and_its_devices(tmp_path):
    launch = load(written(tmp_path))
    history = LaunchHistory(tmp_path / "split")
    assert history.find(launch, DEVICES).share() is None
    history.keep(launch, DEVICES, runs=1, speeds=(30.0, 10.0))
    assert history.find(launch, DEVICES).share() == 0.75
    assert history.find(launch, DEVICES[::-1]).runs == 0
    [(devices, entries)] = history.by_devices(2).items()
    assert (devices, [entry.runs for entry in entries]) == (device_names(DEVICES), [1])
    assert history.by_devices(3) == {}


@pytest.mark.parametrize(
    "wrong",
    [
        {"speeds": [1.0, 2.0, 3.0]},
        {"speeds": [-1.0, 1.0]},
        {"speeds": [math.nan, 1.0]},
        {"speeds": [math.inf, 1.0]},
        {"speeds": ["a", "b"]},
        {"runs": "x"},
        {"runs": -1},
        {"whole_on": 7},
        {"whole_on": True},
        {"checked_at": "never"},
        {"quarantined": 1},
        {"features": [math.inf]},
        {"devices": "2"},
        {"colour": "red"},
    ],
    ids=str,
)
def test_a_file_with_values_that_no_run_gives_is_no_history(tmp_path, wrong):
    launch = load(written(tmp_path))
    history = LaunchHistory(tmp_path / "split")
    history.keep(launch, DEVICES, runs=4, speeds=(30.0, 10.0), whole_on=1)
    [path] = history.folder.glob("*.json")
    assert history.find(launch, DEVICES).whole_on == 1
    path.write_text(json.dumps({**json.loads(path.read_text()), **wrong}))
    assert history.find(launch, DEVICES) == LaunchHistory(tmp_path / "none").find(launch, DEVICES)
    assert history.by_devices(2) == {}


def test_threads_that_keep_at_once_lose_nothing(tmp_path):
    launch = load(written(tmp_path))
    history = LaunchHistory(tmp_path / "split")
    changes = [{"runs": 5}, {"quarantined": "it met"}, {"checked_at": 3}, {"whole_on": 0}]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: history.keep(launch, DEVICES, **changes[number % 4]), range(100)))
    entry = history.find(launch, DEVICES)
    assert (entry.runs, entry.quarantined, entry.checked_at, entry.whole_on) == (5, "it met", 3, 0)


def test_a_history_that_cannot_be_written_is_logged_and_fails_no_run(tmp_path, caplog):
    launch = load(written(tmp_path))
    (tmp_path / "split").write_text("a file where the folder would be")
    assert LaunchHistory(tmp_path / "split").keep(launch, DEVICES, runs=1).runs == 1
    assert "is not kept" in caplog.text


def test_a_file_that_is_damaged_is_no_history(tmp_path):
    launch = load(written(tmp_path))
    history = LaunchHistory(tmp_path / "split")
    history.keep(launch, DEVICES, runs=4)
    next(history.folder.glob("*.json")).write_text("{")
    assert history.find(launch, DEVICES).runs == 0
    assert history.by_devices(2) == {}
