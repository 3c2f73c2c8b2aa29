"""The synthetic data has the shapes and value ranges of the real sets, and the readers do what they say."""

import threading
import time

import numpy as np
import pytest

from workloads import common, image_classification, segmentation, sentiment


def test_what_the_network_sees_has_gtsrbs_shape_and_range():
    images, labels = image_classification.augmented(
        *image_classification.synthetic(50, 0), 16, np.random.default_rng(0)
    )
    assert images.shape == (16, 32, 32, 3)
    assert images.dtype == np.float32
    assert images.min() >= 0
    assert images.max() <= 1
    assert set(labels) <= set(range(43))


def test_a_picture_neither_turned_nor_moved_stays_as_it_is():
    images, _ = image_classification.synthetic(3, 0)
    same = image_classification._resampled(images, np.stack([np.eye(2)] * 3), np.zeros((3, 1, 2)))
    assert np.abs(same - images).max() < 1


def test_augmentation_keeps_labels_with_their_images():
    images = np.repeat(np.arange(10, dtype=np.uint8) * 25, 64 * 64 * 3).reshape(10, 64, 64, 3)
    seen, labels = image_classification.augmented(images, np.arange(10), 16, np.random.default_rng(1))
    assert seen.mean(axis=(1, 2, 3)) == pytest.approx(labels * 25 / 255, abs=0.02)


def test_reviews_of_the_two_sentiments_use_different_words():
    words, labels = sentiment.synthetic(200, 64, 0)
    telling = ((words >= 1100) & (words < 1200)).sum(axis=1)
    assert telling[labels == 1].mean() > 4 * telling[labels == 0].mean()
    assert words.max() < sentiment.VOCABULARY


def test_the_same_seed_draws_the_same_data():
    assert np.array_equal(sentiment.synthetic(5, 8, 3)[0], sentiment.synthetic(5, 8, 3)[0])


def test_pets_are_written_once_and_read_back(tmp_path):
    files = segmentation.prepare(tmp_path, 3, 0)
    written = [file.stat().st_mtime_ns for file in files]
    assert segmentation.prepare(tmp_path, 3, 0) == files
    assert [file.stat().st_mtime_ns for file in files] == written
    image, mask = segmentation.Reader(0).read(files[0])
    assert image.shape == (128, 128, 3)
    assert image.dtype == np.uint8
    assert set(np.unique(mask)) == {0, 1, 2}
    assert not list(tmp_path.glob("*.tmp"))


def test_the_paced_reader_takes_the_time_that_the_bytes_need(tmp_path):
    files = segmentation.prepare(tmp_path, 4, 0)
    size = sum(file.stat().st_size for file in files)
    reader = segmentation.Reader(size / 0.4)
    began = reader.free_at
    for file in files:
        reader.read(file)
    assert time.monotonic() - began >= 0.39


def test_batches_come_in_order_from_a_thread_that_ends_with_them():
    made = iter(range(1000))
    with common.batches(lambda: next(made)) as data:
        assert [next(data) for _ in range(10)] == list(range(10))
        assert any(thread.name.startswith("loader") for thread in threading.enumerate())
    assert not any(thread.name.startswith("loader") for thread in threading.enumerate())


def test_a_loader_that_fails_ends_the_training_with_its_error():
    def fail():
        raise FileNotFoundError("000001.npz")

    with pytest.raises(FileNotFoundError, match="000001"), common.batches(fail) as data:
        next(data)


@pytest.mark.parametrize("flags", [["--batch-size", "0"], ["--data", "real"], ["--model", "vgg"], ["--nonsense"]])
def test_a_wrong_flag_is_refused_before_anything_is_loaded(flags, capsys):
    with pytest.raises(SystemExit) as ended:
        image_classification.main(flags)
    assert ended.value.code == 2
    assert "usage:" in capsys.readouterr().err
