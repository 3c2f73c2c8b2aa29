"""The loop that all scripts share: batches in order, epochs that leave nothing out, limits, and flags that fail at once."""

import argparse
import threading

import numpy as np
import pytest

from workloads import common, image_classification
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


def test_a_loss_that_is_no_number_is_told_as_unknown():
    progress = Progress(limits(steps=2), 3)
    progress.step(float("nan"))
    progress.step(float("inf"))
    assert (progress.summary()["loss_first"], progress.summary()["loss_last"]) == (None, None)


@pytest.mark.parametrize(
    "flags",
    [["--batch-size", "0"], ["--data", "no/such/folder"], ["--model", "vgg"], ["--precision", "int8"], ["--nonsense"]],
)
def test_a_wrong_flag_is_refused_before_anything_is_loaded(flags, capsys):
    with pytest.raises(SystemExit) as ended:
        image_classification.main(flags)
    assert ended.value.code == 2
    assert "usage:" in capsys.readouterr().err
