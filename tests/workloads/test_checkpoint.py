"""What is saved comes back as it was; what does not fit is refused with the way out. Keras is not needed: arrays are kept too."""

import argparse
import resource

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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


def test_what_another_script_saved_is_refused(tmp_path):
    training(tmp_path, np.arange(3)).save(7)
    with pytest.raises(SystemExit, match="another script made it"):
        training(tmp_path, np.arange(3), image_size=96).restore()


@pytest.mark.parametrize(
    ("saved", "now", "fits"),
    [
        ("float32", "mixed_bfloat16", True),
        ("mixed_bfloat16", "float32", True),
        ("float32", "mixed_float16", False),
        ("mixed_float16", "mixed_bfloat16", False),
        ("mixed_float16", "mixed_float16", True),
    ],
)
def test_only_a_scaled_loss_needs_the_precision_that_it_was_saved_with(tmp_path, saved, now, fits):
    training(tmp_path, np.arange(3), precision=saved).save(7)
    if fits:
        assert training(tmp_path, np.arange(3), precision=now).restore() == 7
    else:
        with pytest.raises(SystemExit, match=f"it was made with --precision {saved}"):
            training(tmp_path, np.arange(3), precision=now).restore()


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


def test_a_full_disk_leaves_what_was_saved_and_nothing_half(tmp_path):
    training(tmp_path, np.arange(3)).save(7)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (600, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            training(tmp_path, np.zeros(3)).save(8)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoint.npz"]
    assert training(tmp_path, np.zeros(3, int)).restore() == 7


def test_a_save_on_the_way_that_fails_does_not_end_the_training(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").touch()
    now = iter([0.0, 400.0, 400.0, 500.0])
    monkeypatch.setattr(module.time, "monotonic", lambda: next(now))
    one = training(tmp_path / "file" / "below", np.arange(3), checkpoint_seconds=300)
    one.save_if_due(5)
    one.save_if_due(6)  # 100 s later: not yet again
    assert capsys.readouterr().out.count("NOT SAVED: ") == 1


@given(place=st.floats(0, 1, exclude_max=True), flipped=st.integers(0, 255))
def test_whatever_happened_to_the_file_it_comes_back_right_or_is_refused(tmp_path_factory, place, flipped):
    """Cut off there (0), or with other bits there."""
    folder = tmp_path_factory.mktemp("saved")
    training(folder, np.arange(3)).save(7)
    file = folder / "checkpoint.npz"
    content = bytearray(file.read_bytes())
    at = int(place * len(content))
    if flipped:
        content[at] ^= flipped
    else:
        del content[at:]
    file.write_bytes(content)
    array = np.zeros(3, int)
    try:
        found = training(folder, array).restore(), array.tolist()
    except SystemExit as refused:
        found = str(refused)
    assert found == (7, [0, 1, 2]) or found.startswith("cannot resume from")


def test_without_a_folder_nothing_is_saved(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    training(None, np.arange(3)).save(7)
    assert list(tmp_path.iterdir()) == []
