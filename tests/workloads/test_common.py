"""The loop that all scripts share: batches in order, epochs that leave nothing out, limits, and flags that fail at once."""

import argparse
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from workloads import cartpole, common, image_classification, lstm, segmentation, sentiment
from workloads.progress import Progress


def test_batches_come_in_order_from_threads_that_end_with_them():
    with common.batches(lambda number: number, first=7, loaders=3) as data:
        assert [next(data) for _ in range(10)] == list(range(7, 17))
        assert any(thread.name.startswith("loader") for thread in threading.enumerate())
    assert not any(thread.name.startswith("loader") for thread in threading.enumerate())


def test_a_loader_that_fails_ends_the_training_with_its_error():
    def fail(number):
        raise FileNotFoundError("000001.npz")

    with pytest.raises(FileNotFoundError, match="000001"), common.batches(fail) as data:
        next(data)


def test_every_epoch_shows_each_sample_once_and_in_another_order():
    order = common.Order(samples=12, batch_size=4, seed=0)
    first, second = (np.concatenate([order.chosen(step) for step in steps]) for steps in (range(3), range(3, 6)))
    assert sorted(first) == sorted(second) == list(range(12))
    assert first.tolist() != second.tolist()


def test_any_step_can_be_asked_for_alone_which_resuming_needs():
    asked = common.Order(12, 4, 0)
    in_a_row = [asked.chosen(step).tolist() for step in range(9)]
    assert common.Order(12, 4, 0).chosen(7).tolist() == in_a_row[7]


def test_a_set_smaller_than_a_batch_is_repeated():
    assert np.bincount(common.Order(3, 8, 0).chosen(5)).tolist() in ([3, 3, 2], [3, 2, 3], [2, 3, 3])


def limits(**changed):
    return argparse.Namespace(**{"epochs": 2, "steps": 0, "seconds": 0, **changed})


def steps_until_the_end(progress):
    while progress.ended is None:
        progress.step(1.0)
    return progress.steps, progress.ended


def test_the_first_limit_reached_ends_it():
    assert steps_until_the_end(Progress(limits(), epoch_steps=3)) == (6, "epochs")
    assert steps_until_the_end(Progress(limits(steps=4), epoch_steps=3)) == (4, "steps")
    assert steps_until_the_end(Progress(limits(seconds=1e-9), epoch_steps=3)) == (1, "seconds")


def test_limits_count_the_steps_before_a_resume():
    assert steps_until_the_end(Progress(limits(steps=4), 3, resumed_at=3)) == (1, "steps")
    assert steps_until_the_end(Progress(limits(), 3, resumed_at=4)) == (2, "epochs")


def test_a_training_that_was_done_ends_before_its_first_step():
    assert steps_until_the_end(Progress(limits(steps=4), 3, resumed_at=4)) == (0, "steps")


def test_a_loss_that_is_not_finite_is_reported_as_none():
    progress = Progress(limits(steps=2), 3)
    progress.step(float("nan"))
    progress.step(float("inf"))
    assert (progress.summary()["loss_first"], progress.summary()["loss_last"]) == (None, None)


WRONG = [
    *(
        ("--batch-size", "0"),
        ("--data", "no/such/folder"),
        ("--model", "vgg"),
        ("--precision", "int8"),
        ("--nonsense",),
    ),
    *(
        ("--steps", "-1"),
        ("--steps", "ten"),
        ("--seconds", "-1"),
        ("--seconds", "nan"),
        ("--checkpoint-seconds", "inf"),
    ),
    *(("--epochs", "0"), ("--samples", "-4"), ("--threads", "-1"), ("--loaders", "0"), ("--seed", "-1")),
    *(("--seed", "4294967296"), ("--checkpoint", __file__), ("--image-size", "31", "--model", "resnet50")),
    ("--image-size", "74", "--model", "inception_v3"),
]


@pytest.mark.parametrize("flags", WRONG)
def test_a_wrong_flag_is_refused_before_anything_is_loaded(flags, capsys):
    with pytest.raises(SystemExit) as ended:
        image_classification.main(list(flags))
    assert ended.value.code == 2
    printed = capsys.readouterr().err
    assert "usage:" in printed
    assert flags[0] in printed.splitlines()[-1]


@pytest.mark.parametrize(
    ("script", "flag"),
    [
        (segmentation, "--storage-mbps"),
        (cartpole, "--carts"),
        (sentiment, "--sequence-length"),
        (lstm, "--sequence-length"),
    ],
)
def test_a_flag_of_one_script_takes_no_negative_number(script, flag, capsys):
    with pytest.raises(SystemExit) as ended:
        script.main([flag, "-1"])
    assert ended.value.code == 2
    assert f"{flag}: -1 is not a" in capsys.readouterr().err


def test_a_framework_that_is_not_there_is_said_with_the_way_to_get_one(monkeypatch):
    """Another process: Keras is loaded once for all."""
    program = "from workloads import cnn; cnn.main(['--samples', '1', '--data', 'synthetic'])"
    environment = {**os.environ, "KERAS_BACKEND": "abacus"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("cannot load Keras with abacus: ")
    assert "pip install" in done.stderr
    assert "Traceback" not in done.stderr
