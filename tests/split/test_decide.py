"""A launch that one device ran faster than a split did is run whole there, and split again now and then."""

from __future__ import annotations

import numpy as np
import pytest

from gpuq.errors import Failure
from gpuq.split import decide
from gpuq.split.history import LaunchHistory
from gpuq.split.launch import KernelFault, KernelLaunch, OpenClDevice
from gpuq.split.parts import Result
from gpuq.split.values import IndexSpace
from gpuq.split.verdict import Correctness, SplitVerdict

DEVICES = (OpenClDevice(cores=(0,)), OpenClDevice(cores=(1,)))
LAUNCH = KernelLaunch("source", "k", "", IndexSpace((0,), (1000,), (10,)), ("b",), {"b": np.zeros(1000, np.float32)})


@pytest.fixture
def runs(monkeypatch):
    """The devices of each run; a split takes 0.2 s, of devices that do 400 and 1000 groups a second."""
    seen = []

    def run_parts(launch, verdict, devices, **_):
        seen.append(tuple(devices))
        return Result(launch.buffers, 0.2, (0.3, 0.7), (400.0, 1000.0)[: len(devices)], (1, 1), (0.1, 0.1), ((), ()))

    monkeypatch.setattr(decide, "run_parts", run_parts)
    monkeypatch.setattr(decide, "compiled", lambda launch, _: launch)
    monkeypatch.setattr(decide, "judged", lambda _: SplitVerdict(Correctness.PROVEN, "", 0, {"b": 4}))
    return seen


def test_the_better_device_alone_runs_what_a_split_slowed_down(tmp_path, runs):
    history = LaunchHistory(tmp_path)
    outcomes = [decide.run(LAUNCH, DEVICES, history, limit_s=1) for _ in range(decide.CHECK_EVERY + 1)]
    assert [one.how for one in outcomes[:3]] == ["split, proven", "whole", "whole"]
    assert runs[1] == DEVICES[1:]
    assert [one.how for one in outcomes].count("split, proven") == 2


@pytest.mark.parametrize(
    ("failure", "kept"), [(KernelFault("two devices stored to it."), True), (Failure("no room for a buffer."), False)]
)
def test_only_a_fault_of_the_kernel_keeps_a_launch_whole_from_then_on(tmp_path, runs, monkeypatch, failure, kept):
    whole = decide.run_parts

    def fails(launch, verdict, devices, **options):
        if len(devices) > 1:
            raise failure
        return whole(launch, verdict, devices, **options)

    monkeypatch.setattr(decide, "run_parts", fails)
    history = LaunchHistory(tmp_path)
    outcome = decide.run(LAUNCH, DEVICES, history, limit_s=1)
    assert (outcome.how, outcome.why) == ("whole", f"the split failed: {failure.message}")
    assert (history.find(LAUNCH, DEVICES).quarantined is not None) is kept


def test_a_launch_that_may_get_lent_cores_is_split_each_time(tmp_path, runs):
    devices = (DEVICES[0], OpenClDevice(lent=True))
    history = LaunchHistory(tmp_path)
    for _ in range(3):
        assert decide.run(LAUNCH, devices, history, limit_s=1).how == "split, proven"


def test_a_speed_that_one_run_did_not_show_is_kept(tmp_path, runs, monkeypatch):
    history = LaunchHistory(tmp_path)
    history.keep(LAUNCH, DEVICES, speeds=(1.0, 7.0))
    monkeypatch.setattr(
        decide, "run_parts", lambda *_, **__: Result({}, 0.01, (1.0, 0.0), (5.0, None), (1, 0), (0.1, 0.0), ((), ()))
    )
    decide.run(LAUNCH, DEVICES, history, limit_s=1)
    assert history.find(LAUNCH, DEVICES).speeds == (5.0, 7.0)
