"""The workloads really train, stop and go on. Importing TensorFlow takes seconds, so one process runs them.

Keras imports Matplotlib and scikit-learn where they are installed. No workload needs them, so they are hidden from it here, which
saves a quarter of that time. The networks that take long to compile, and a stop from outside, are in `test_every_model.py`, for
`make soak`.
"""

import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import workloads

FOLDER = Path(workloads.__file__).parent
SCRIPTS = ["cartpole", "cnn", "dcgan", "gan", "image_classification", "lstm", "rnn", "segmentation", "sentiment"]
MANY = """
import os, runpy, signal, sys
from pathlib import Path
sys.modules.update(dict.fromkeys(("matplotlib", "sklearn")))
from workloads import cartpole, image_classification, lstm, progress, segmentation, sentiment
folder = Path(sys.argv[1])
short = ["--threads", "1", "--epochs", "50", "--batch-size", "8", "--data", "synthetic"]
words = ["--sequence-length", "16"]
poles = [*short, "--steps", "6", "--carts", "4"]
def run(workload, *flags):
    code = workload.main([*short, *flags])
    if code != 0:
        sys.exit(f"{workload.__name__} ended with {code}")
def stopped_after_its_first_step(script, *flags):
    talk = progress.say
    def say(text):
        talk(text)
        if text.startswith("first step"):
            os.kill(os.getpid(), signal.SIGTERM)
    progress.say, sys.argv = say, [script, *flags]
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as ended:
        print("stopped with", ended.code)
    progress.say = talk
saved = ["--checkpoint", str(folder / "poles")]
stopped_after_its_first_step(cartpole.__file__, *poles, *saved)
run(cartpole, *poles, *saved)
run(cartpole, *poles)
run(image_classification, "--steps", "7", "--samples", "32")
fit = sentiment.common.fit
def fit_and_tell_the_rate(model, *rest):
    print("rate of BERT", round(float(model.optimizer.learning_rate), 9))
    return fit(model, *rest)
sentiment.common.fit = fit_and_tell_the_rate
run(sentiment, "--steps", "60", "--samples", "64", *words)
sentiment.common.fit = fit
run(segmentation, "--steps", "10", "--samples", "12", "--data-dir", str(folder / "pets"))
run(lstm, "--steps", "3", "--samples", "32", *words)
"""
STOPPED, RESUMED, STRAIGHT, IMAGES, WORDS, PETS, NEXT_WORD = range(7)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The summaries, and the whole log."""
    command = [sys.executable, "-c", MANY, str(tmp_path_factory.mktemp("workloads"))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")], done.stdout


def test_each_makes_exactly_the_steps_asked_for(trained):
    for one in trained[0][RESUMED:]:
        assert (one["total_steps"], one["ended"]) == (one["asked"]["steps"], "steps")


def test_the_loss_goes_down(trained):
    for one in (trained[0][WORDS], trained[0][PETS], trained[0][NEXT_WORD]):
        assert one["loss_last"] < one["loss_first"]


def test_bert_learns_at_the_rate_that_it_was_made_for(trained):
    """Adam's usual 0.001 throws the wide ones off, which take too long to be trained here."""
    assert "rate of BERT 0.0001\n" in trained[1]
    assert trained[0][WORDS]["loss_last"] < trained[0][WORDS]["loss_first"] / 2


def test_the_log_says_that_the_data_is_synthetic(trained):
    assert trained[1].count("data: synthetic") == len(trained[0])


def test_the_summary_tells_what_was_asked_and_what_was_used(trained):
    images = trained[0][IMAGES]
    assert images["asked"]["batch_size"] == 8
    assert images["asked"]["model"] == "cnn"
    assert images["peak_memory_bytes"] > 100 * 2**20
    assert images["steps_per_s"] > 0
    assert images["backend"] == "tensorflow"
    assert images["allocator_peak_bytes"] is None or images["device"] != "cpu"


def test_sigterm_ends_training_after_the_step_under_way_with_a_checkpoint_and_the_summary(trained):
    stopped = trained[0][STOPPED]
    assert "stopped with 143" in trained[1]
    assert (stopped["ended"], stopped["steps"]) == ("stopped", 1)
    assert "saved step 1 to" in trained[1]


def test_a_resumed_run_goes_on_as_if_it_had_never_stopped(trained):
    """Weights, optimizer, replay memory and carts: all as they would have been, so the loss is the same number."""
    resumed, straight = trained[0][RESUMED], trained[0][STRAIGHT]
    assert "resumed at step 1 from" in trained[1]
    assert (resumed["steps"], straight["steps"]) == (5, 6)
    assert resumed["loss_last"] == pytest.approx(straight["loss_last"], rel=1e-6)


@pytest.mark.parametrize("script", SCRIPTS)
def test_each_script_runs_as_a_file_and_explains_its_flags(script, monkeypatch, capsys):
    file = str(FOLDER / f"{script}.py")
    monkeypatch.setattr(sys, "argv", [file, "--help"])
    monkeypatch.setattr(sys, "path", [str(FOLDER), *sys.path])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(file, run_name="__main__")
    assert ended.value.code == 0
    assert sys.path[0] == str(FOLDER.parent)
    printed = capsys.readouterr().out
    assert all(
        flag in printed for flag in ("--batch-size", "--epochs", "--steps", "--precision", "--data", "--checkpoint")
    )
