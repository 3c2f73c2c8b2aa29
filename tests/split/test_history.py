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


def test_a_file_that_is_damaged_is_no_history(tmp_path):
    launch = load(written(tmp_path))
    history = LaunchHistory(tmp_path / "split")
    history.keep(launch, DEVICES, runs=4)
    next(history.folder.glob("*.json")).write_text("{")
    assert history.find(launch, DEVICES).runs == 0
    assert history.by_devices(2) == {}
