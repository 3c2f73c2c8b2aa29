"""What is saved comes back as it was; what does not fit is refused with the way out. Keras is not needed: arrays are kept too."""

import argparse

import numpy as np
import pytest

from workloads import checkpoint as module
from workloads.checkpoint import Checkpoint


@pytest.fixture(autouse=True)
def _no_framework(monkeypatch):
    monkeypatch.setattr(module, "_backend", lambda: "none")


def training(folder, array, **asked):
    options = {"batch_size": 8, "steps": 10, "checkpoint": folder, "checkpoint_seconds": 0, **asked}
    return Checkpoint(argparse.Namespace(**options), [], {"replay": array})


def test_nothing_saved_is_step_zero(tmp_path):
    array = np.arange(3)
    assert training(tmp_path / "none", array).restore() == 0
    assert array.tolist() == [0, 1, 2]


def test_the_step_and_the_arrays_come_back_in_place(tmp_path):
    training(tmp_path / "new", np.arange(3)).save(7)
    array = np.zeros(3, int)
    assert training(tmp_path / "new", array, steps=99).restore() == 7
    assert array.tolist() == [0, 1, 2]
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["checkpoint.npz"]


def test_another_batch_size_is_refused_with_the_one_it_was(tmp_path):
    training(tmp_path, np.arange(3)).save(7)
    with pytest.raises(SystemExit, match=r"--batch-size 8\. Name another folder"):
        training(tmp_path, np.arange(3), batch_size=16).restore()


def test_another_shape_is_refused(tmp_path):
    training(tmp_path, np.arange(3)).save(7)
    with pytest.raises(SystemExit, match="shape"):
        training(tmp_path, np.arange(4)).restore()


@pytest.mark.parametrize("content", [b"", b"PK\3\4 cut off", b"no archive at all"])
def test_a_broken_file_is_refused_and_not_run(tmp_path, content):
    (tmp_path / "checkpoint.npz").write_bytes(content)
    with pytest.raises(SystemExit, match="cannot resume from"):
        training(tmp_path, np.arange(3)).restore()


def test_a_crash_while_saving_leaves_what_was_saved_before(tmp_path, monkeypatch):
    training(tmp_path, np.arange(3)).save(7)

    def crash(stream, **arrays):
        stream.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(module.np, "savez", crash)
    with pytest.raises(OSError, match="disk full"):
        training(tmp_path, np.zeros(3)).save(8)
    assert training(tmp_path, np.zeros(3)).restore() == 7


def test_without_a_folder_nothing_is_saved(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    training(None, np.arange(3)).save(7)
    assert list(tmp_path.iterdir()) == []
