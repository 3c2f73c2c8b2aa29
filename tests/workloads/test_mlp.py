"""The training in NumPy alone: its gradient, its data, its pace, and how it ends."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import workloads
from workloads import common, mlp

SCRIPT = Path(workloads.__file__).parent / "mlp.py"


def some_data(count=6, seed=1):
    random = np.random.default_rng(seed)
    return random.random((count, mlp.PIXELS), np.float32) - 0.5, random.integers(0, 10, count)


def trained(capsys, monkeypatch, *flags):
    monkeypatch.setattr(mlp.signal, "signal", lambda *_: None)
    code = mlp.main(["--samples", "64", "--batch-size", "32", *flags])
    return code, json.loads(capsys.readouterr().out.splitlines()[-1])


def test_the_gradient_is_that_of_the_loss(monkeypatch):
    monkeypatch.setitem(mlp.MODELS, "tiny", (5, 4))
    weights = [(w.astype(np.float64), b.astype(np.float64)) for w, b in mlp.start_weights("tiny", 0)]
    data = some_data()
    _, found = mlp.gradient(weights, data)
    for layer, place in ((0, (300, 2)), (1, (3, 1)), (2, (0, 7))):
        matrix = weights[layer][0]
        matrix[place] += 1e-5
        above, _ = mlp.gradient(weights, data)
        matrix[place] -= 2e-5
        below, _ = mlp.gradient(weights, data)
        matrix[place] += 1e-5
        assert found[layer][0][place] == pytest.approx((above - below) / 2e-5, rel=1e-3, abs=1e-7)


def test_threads_change_who_computes_and_not_what():
    one, three = mlp.start_weights("small", 0), mlp.start_weights("small", 0)
    data = some_data(7)
    with ThreadPoolExecutor(3) as pool:
        losses = mlp.step(one, data, 0.05, 1, pool), mlp.step(three, data, 0.05, 3, pool)
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    for (weight, bias), (other, other_bias) in zip(one, three, strict=True):
        np.testing.assert_allclose(weight, other, atol=1e-6)
        np.testing.assert_allclose(bias, other_bias, atol=1e-6)


def test_a_batch_is_what_lies_in_the_file(tmp_path):
    file = mlp.prepare(tmp_path, 8, 0)
    images, labels = mlp.mnist.synthetic(8, 0)
    order = common.Order(2, 1, 0)
    found, classes = mlp.batch(file, common.Pace(0), order, 4, 0)
    first = 4 * order.chosen(0)[0]
    np.testing.assert_allclose(found, images[first : first + 4].reshape(4, -1) / np.float32(255) - 0.5, atol=1e-6)
    assert classes.tolist() == labels[first : first + 4].tolist()


def test_the_pace_is_shared_by_all_who_read():
    pace = common.Pace(1000)
    began = pace.free_at
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(pace.wait, [200] * 4))
    assert pace.free_at == pytest.approx(began + 0.8, abs=0.01)


def test_it_learns_and_says_what_it_cost(capsys, monkeypatch, tmp_path):
    code, summary = trained(capsys, monkeypatch, "--data-dir", str(tmp_path), "--steps", "10")
    assert (code, summary["ended"], summary["steps"]) == (0, "steps", 10)
    assert summary["loss_last"] < summary["loss_first"]
    assert summary["cpu_seconds"] > 0


def test_each_step_is_counted(capsys, monkeypatch):
    counted = []
    monkeypatch.setattr(mlp.gpuq, "step", lambda: counted.append(True))
    trained(capsys, monkeypatch, "--steps", "3")
    assert len(counted) == 3


def test_it_ends_when_the_stop_file_is_there(capsys, monkeypatch, tmp_path):
    (tmp_path / "stop").touch()
    code, summary = trained(capsys, monkeypatch, "--stop-file", str(tmp_path / "stop"))
    assert (code, summary["ended"], summary["steps"]) == (0, "stop file", 1)


def test_it_runs_as_a_file_from_anywhere(tmp_path):
    flags = ["--samples", "64", "--batch-size", "32", "--steps", "1"]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *flags], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["steps"] == 1
