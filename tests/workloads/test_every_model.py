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


def train(script, *flags, steps=2):
    command = [sys.executable, str(FOLDER / f"{script}.py"), "--data", "synthetic", "--samples", "16"]
    command += ["--batch-size", "4", "--steps", str(steps), "--threads", "1", *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(("script", "model"), MODELS)
def test_it_takes_real_steps(script, model):
    summary = train(script, "--model", model)
    assert (summary["steps"], summary["ended"]) == (2, "steps")
    assert summary["loss_first"] is not None
    assert summary["loss_first"] != summary["loss_last"]


@pytest.mark.parametrize("precision", ["mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("script", ["image_classification", "sentiment", "dcgan"])
def test_it_trains_in_fewer_bits(script, precision):
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
    command = [sys.executable, "-m", "workloads.segmentation", "--epochs", "1000", "--samples", "8"]
    command += ["--data", "synthetic", "--batch-size", "2", "--storage-mbps", "0.5", "--checkpoint", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(FOLDER.parent)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=environment
    ) as process:
        assert any(line.startswith("first step") for line in process.stdout)
        process.send_signal(signal.SIGTERM)
        rest, errors = process.communicate(timeout=60)
    summary = json.loads(rest.splitlines()[-1])
    assert process.returncode == 128 + signal.SIGTERM
    assert summary["ended"] == "stopped"
    assert f"saved step {summary['steps']} to" in rest
    assert "Traceback" not in errors
