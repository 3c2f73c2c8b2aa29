"""The workloads really train. Importing TensorFlow costs 8 s, so one process runs all three and a second is stopped."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import workloads

FOLDER = Path(workloads.__file__).parent
ALL_THREE = """
import sys
from workloads import image_classification, segmentation, sentiment
short = ["--threads", "1", "--epochs", "50"]
codes = [
    image_classification.main([*short, "--steps", "7", "--batch-size", "8", "--samples", "32"]),
    sentiment.main([*short, "--steps", "30", "--batch-size", "8", "--samples", "64", "--sequence-length", "32"]),
    segmentation.main([*short, "--steps", "15", "--batch-size", "4", "--samples", "12", "--data-dir", sys.argv[1]]),
]
sys.exit(max(codes))
"""


@pytest.fixture(scope="module")
def summaries(tmp_path_factory):
    command = [sys.executable, "-c", ALL_THREE, str(tmp_path_factory.mktemp("pets"))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")], done.stdout


def test_each_makes_exactly_the_steps_asked_for(summaries):
    assert [(one["steps"], one["ended"]) for one in summaries[0]] == [(7, "steps"), (30, "steps"), (15, "steps")]


def test_the_loss_goes_down(summaries):
    _, words, pets = summaries[0]
    assert words["loss_last"] < words["loss_first"]
    assert pets["loss_last"] < pets["loss_first"]


def test_the_log_says_that_the_data_is_synthetic(summaries):
    assert summaries[1].count("data: synthetic") == 3


def test_the_summary_tells_what_was_asked_and_what_was_used(summaries):
    images = summaries[0][0]
    assert images["asked"]["batch_size"] == 8
    assert images["asked"]["model"] == "cnn"
    assert images["peak_memory_bytes"] > 100 * 2**20
    assert images["steps_per_s"] > 0


def test_sigterm_ends_training_after_the_step_under_way_with_the_summary(tmp_path):
    command = [sys.executable, str(FOLDER / "segmentation.py"), "--epochs", "1000", "--samples", "8"]
    command += ["--batch-size", "2", "--threads", "1", "--storage-mbps", "0.5", "--data-dir", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert any(line.startswith("first step") for line in process.stdout)
        process.send_signal(signal.SIGTERM)
        rest, errors = process.communicate(timeout=30)
    summary = json.loads(rest.splitlines()[-1])
    assert process.returncode == 128 + signal.SIGTERM
    assert summary["ended"] == "stopped"
    assert summary["steps"] >= 1
    assert "Traceback" not in errors
