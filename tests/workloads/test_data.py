"""What the networks are fed: the synthetic data has the real sets' shapes and ranges, and the readers do what they say."""

import time

import numpy as np
import pytest

from workloads import image_classification, lstm, segmentation, sentiment
from workloads.datasets import gtsrb, imdb, mnist, pets


def test_what_the_network_sees_has_gtsrbs_shape_and_range():
    images, labels = gtsrb.synthetic(50, 0)
    seen, named = image_classification.augmented(images, labels, 32, np.arange(16), np.random.default_rng(0))
    assert seen.shape == (16, 32, 32, 3)
    assert seen.dtype == np.float32
    assert seen.min() >= 0
    assert seen.max() <= 1
    assert set(named) <= set(range(43))


def test_large_networks_see_more_pixels():
    images, labels = gtsrb.synthetic(4, 0)
    seen, _ = image_classification.augmented(images, labels, 64, np.arange(4), np.random.default_rng(0))
    assert seen.shape == (4, 64, 64, 3)


def test_a_picture_neither_turned_nor_moved_stays_as_it_is():
    images, _ = gtsrb.synthetic(3, 0)
    same = image_classification._resampled(images, np.stack([np.eye(2)] * 3), np.zeros((3, 1, 2)))
    assert np.abs(same - images).max() < 1


def test_augmentation_keeps_labels_with_their_images():
    images = np.repeat(np.arange(10, dtype=np.uint8) * 25, 64 * 64 * 3).reshape(10, 64, 64, 3)
    chosen = np.array([3, 9, 0, 3])
    seen, labels = image_classification.augmented(images, np.arange(10), 32, chosen, np.random.default_rng(1))
    assert labels.tolist() == chosen.tolist()
    assert seen.mean(axis=(1, 2, 3)) == pytest.approx(labels * 25 / 255, abs=0.02)


def test_reviews_of_the_two_sentiments_use_different_words():
    words, labels = imdb.synthetic(200, 64, 20_000, 0)
    telling = ((words >= 1100) & (words < 1200)).sum(axis=1)
    assert telling[labels == 1].mean() > 4 * telling[labels == 0].mean()
    assert words.min() > imdb.UNKNOWN
    assert words.max() < 20_000


def test_one_word_in_ten_is_hidden():
    words, labels = imdb.synthetic(200, 64, 20_000, 0)
    seen, _ = sentiment.batch(words, labels, np.arange(200), np.random.default_rng(0))
    assert (seen == imdb.UNKNOWN).mean() == pytest.approx(0.1, abs=0.02)


def test_the_word_to_predict_follows_its_context_and_is_never_padding():
    words = np.zeros((2, 20), np.int32)
    words[0, :6] = range(10, 16)
    words[1] = range(100, 120)
    for seed in range(20):
        before, after = lstm.batch(words, 4, np.array([0, 1]), np.random.default_rng(seed))
        assert (after == before[:, -1] + 1).all()
        assert after[0] in range(11, 16)
        assert all(
            row[row > 0].tolist() == list(range(last - (row > 0).sum() + 1, last + 1))
            for row, last in zip(before, before[:, -1], strict=True)
        )


def test_digits_are_white_strokes_that_tell_their_class():
    digits, labels = mnist.synthetic(300, 0)
    assert digits.shape == (300, 28, 28, 1)
    assert digits.dtype == np.uint8
    assert digits.min() == 0
    assert digits.max() == 255
    means = np.stack([digits[labels == label].mean(axis=0) for label in range(10)])
    nearest = np.abs(digits[:, None] - means).mean(axis=(2, 3, 4)).argmin(axis=1)
    assert (nearest == labels).mean() > 0.8


@pytest.mark.parametrize(
    "draw", [gtsrb.synthetic, mnist.synthetic, lambda samples, seed: imdb.synthetic(samples, 8, 3000, seed)]
)
def test_the_same_seed_draws_the_same_data(draw):
    assert np.array_equal(draw(5, 3)[0], draw(5, 3)[0])
    assert not np.array_equal(draw(5, 3)[0], draw(5, 4)[0])


def test_pets_are_written_once_and_read_back(tmp_path):
    files = pets.prepare(tmp_path, 3, 0)
    written = [file.stat().st_mtime_ns for file in files]
    assert pets.prepare(tmp_path, 3, 0) == files
    assert [file.stat().st_mtime_ns for file in files] == written
    image, mask = segmentation.Reader(0).read(files[0])
    assert image.shape == (128, 128, 3)
    assert image.dtype == np.uint8
    assert set(np.unique(mask)) == {0, 1, 2}
    assert not list(tmp_path.glob("*.tmp"))


def test_a_file_that_is_missing_is_made_as_it_was(tmp_path):
    first = pets.prepare(tmp_path, 3, 0)
    image, _ = segmentation.Reader(0).read(first[1])
    first[1].unlink()
    again, _ = segmentation.Reader(0).read(pets.prepare(tmp_path, 3, 0)[1])
    assert np.array_equal(image, again)


def test_the_paced_reader_takes_the_time_that_the_bytes_need(tmp_path):
    files = pets.prepare(tmp_path, 4, 0)
    size = sum(file.stat().st_size for file in files)
    reader = segmentation.Reader(size / 0.4)
    began = reader.pace.free_at
    for file in files:
        reader.read(file)
    assert time.monotonic() - began >= 0.39
