"""Every network of every script takes real steps. Minutes, most of them compiling, so only `make soak` runs it.

`KERAS_BACKEND=jax` or `torch` before it tests these, where they are installed.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import workloads
from workloads import image_classification, segmentation, sentiment

pytestmark = pytest.mark.soak
FOLDER = Path(workloads.__file__).parent
MODELS = [
    ("cartpole", "dqn"),
    ("cnn", "cnn"),
    ("dcgan", "dcgan"),
    ("gan", "gan"),
    *(("image_classification", model) for model in ("cnn", *image_classification.LARGE)),
    ("lstm", "lstm"),
    ("rnn", "rnn"),
    *(("segmentation", model) for model in segmentation.MODELS),
    *(("sentiment", model) for model in sentiment.MODELS),
]


def command(script, *flags, steps):
    small = ["--data", "synthetic", "--samples", "16", "--batch-size", "4", "--epochs", "1000", "--threads", "1"]
    return [sys.executable, str(FOLDER / f"{script}.py"), *small, "--steps", str(steps), *flags]


def train(script, *flags, steps=2):
    done = subprocess.run(
        command(script, *flags, steps=steps), capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def stopped_after_its_first_step(script, *flags):
    """The summary of a training that got a SIGTERM as soon as it said that it had made a step."""
    with subprocess.Popen(
        command(script, *flags, steps=1000), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert any(line.startswith("first step") for line in process.stdout), process.stderr.read()[-3000:]
        process.send_signal(signal.SIGTERM)
        rest, errors = process.communicate(timeout=120)
    assert process.returncode == 128 + signal.SIGTERM, errors[-3000:]
    assert "Traceback" not in errors
    return json.loads(rest.splitlines()[-1])


@pytest.mark.parametrize(("script", "model"), MODELS)
def test_it_learns_stops_and_goes_on(script, model, tmp_path, record_property):
    flags = ["--model", model, "--checkpoint", str(tmp_path)]
    stopped = stopped_after_its_first_step(script, *flags)
    assert stopped["ended"] == "stopped"
    assert stopped["steps"] >= 1
    resumed = train(script, *flags, steps=stopped["steps"] + 2)
    assert (resumed["ended"], resumed["steps"], resumed["total_steps"]) == ("steps", 2, stopped["steps"] + 2)
    assert None not in (stopped["loss_first"], stopped["loss_last"], resumed["loss_first"], resumed["loss_last"])
    assert resumed["loss_first"] != resumed["loss_last"]
    assert 0 < resumed["first_step_s"] < resumed["seconds"]
    assert resumed["steps_per_s"] > 0
    assert resumed["asked"]["model"] == model
    # For `-o junit_family=xunit1 --junitxml FILE`: the table in docs/workloads.md comes from it.
    for name in ("backend", "peak_memory_bytes", "first_step_s"):
        record_property(name, max(stopped[name], resumed[name]))


@pytest.mark.parametrize("precision", ["mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("script", ["image_classification", "sentiment", "dcgan"])
def test_it_trains_in_fewer_bits(script, precision):
    if (os.environ.get("KERAS_BACKEND"), script, precision) == ("jax", "sentiment", "mixed_float16"):
        pytest.skip("JAX cannot multiply float16 into float32 on a CPU, which attention needs")
    summary = train(script, "--precision", precision)
    assert summary["loss_last"] is not None


def test_pictures_can_be_turned_on_the_device():
    assert train("image_classification", "--augment", "device")["loss_last"] is not None


def test_two_players_with_dropout_go_on_as_if_they_had_never_stopped(tmp_path):
    train("dcgan", "--checkpoint", str(tmp_path), steps=2)
    resumed = train("dcgan", "--checkpoint", str(tmp_path), steps=4)
    assert (resumed["steps"], resumed["total_steps"]) == (2, 4)
    assert resumed["loss_last"] == pytest.approx(train("dcgan", steps=4)["loss_last"], rel=1e-6)


def test_a_stop_from_outside_ends_it_with_the_summary(tmp_path):
    started = [sys.executable, "-m", "workloads.segmentation", "--epochs", "1000", "--samples", "8"]
    started += ["--data", "synthetic", "--batch-size", "2", "--storage-mbps", "0.5", "--checkpoint", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(FOLDER.parent)}
    with subprocess.Popen(
        started, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=environment
    ) as process:
        assert any(line.startswith("first step") for line in process.stdout)
        process.send_signal(signal.SIGTERM)
        rest, errors = process.communicate(timeout=60)
    summary = json.loads(rest.splitlines()[-1])
    assert process.returncode == 128 + signal.SIGTERM
    assert summary["ended"] == "stopped"
    assert f"saved step {summary['steps']} to" in rest
    assert "Traceback" not in errors
