"""Where things are kept, closed to others; secrets made once and whole."""

import fcntl
import os
import signal
import stat
from pathlib import Path

import pytest

from gpuq.errors import BadSettings
from gpuq.home import (
    Home,
    NotAFile,
    host_key,
    key_of_this_host,
    open_regular,
    private_secret,
    read_regular,
    write_private,
)
from tests.support.hostile import SHAPES, put


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(
    ("environ", "root"),
    [
        ({"GPUQ_HOME": "/a/b", "XDG_STATE_HOME": "/c"}, "/a/b"),
        ({"XDG_STATE_HOME": "/c"}, "/c/gpuq"),
        ({"GPUQ_HOME": ""}, str(Path.home() / ".local/state/gpuq")),
    ],
)
def test_the_environment_names_the_home(environ, root):
    assert Home.from_environment(environ).root == Path(root)


def test_folders_have_mode_0700(tmp_path):
    home = Home(tmp_path / "home")
    home.create()
    assert {mode(path) for path in (home.root, *home.root.iterdir())} == {0o700}


def test_an_empty_folder_of_ours_is_closed_to_others_and_one_with_files_stays(tmp_path):
    empty, filled = Home(tmp_path / "empty"), Home(tmp_path / "filled")
    for home in (empty, filled):
        home.root.mkdir()
        home.root.chmod(0o755)
    (filled.root / "thesis.tex").touch()
    for home in (empty, filled):
        home.create()
    assert (mode(empty.root), empty.is_open_to_others) == (0o700, False)
    assert (mode(filled.root), filled.is_open_to_others) == (0o755, True)


def test_a_secret_is_created_once(tmp_path):
    path = tmp_path / "token"
    found = [private_secret(path) for _ in range(3)]
    assert len(set(found)) == 1
    assert len(found[0]) >= 40
    assert mode(path) == 0o600
    assert [left.name for left in tmp_path.iterdir()] == ["token"]


def test_a_hosts_key_is_the_hmac_of_its_name_under_the_master_key():
    # printf hostnode1 | openssl dgst -sha256 -hmac secret-order-key
    expected = "0ac97f32eb74ed77326dd0c99237193e0e71039f149eda23312b9971a98a76e8"
    assert host_key("secret-order-key", "node1") == expected
    assert host_key("secret-order-key", "node2") != expected


def test_a_host_uses_its_own_key_file_else_derives_from_the_master_key(tmp_path):
    home = Home(tmp_path)
    derived = key_of_this_host(home, "node1")
    assert derived == host_key(private_secret(home.order_key_file), "node1")

    home.host_key_file.write_text("0123456789abcdef\n")
    assert key_of_this_host(home, "node1") == "0123456789abcdef"

    for lost in ("\n", "\0" * 64):
        home.host_key_file.write_text(lost)
        with pytest.raises(BadSettings, match="no usable key") as raised:
            key_of_this_host(home, "node1")
        assert "gpuq host add node1" in raised.value.fix


@pytest.mark.parametrize("durable", [True, False])
def test_write_private_replaces_atomically_and_follows_no_link(tmp_path, durable):
    path, others = tmp_path / "note", tmp_path / "others"
    write_private(path, b"first", durable=durable)
    write_private(path, b"next", durable=durable)
    assert (path.read_bytes(), mode(path)) == (b"next", 0o600)
    assert [left.name for left in tmp_path.iterdir()] == ["note"]

    (tmp_path / "note.tmp").symlink_to(others)
    write_private(path, b"last", durable=durable)
    assert not others.exists()
    assert (path.read_bytes(), mode(path)) == (b"last", 0o600)


@pytest.mark.parametrize("shape", SHAPES)
def test_write_private_replaces_whatever_has_the_name(tmp_path, shape):
    path = tmp_path / "note"
    for name in ("note", "note.tmp"):
        put(shape, tmp_path / name)
    write_private(path, b"whole", durable=False)
    assert not path.is_symlink()
    assert (path.read_bytes(), mode(path)) == (b"whole", 0o600)
    assert not list(tmp_path.glob("*.followed"))


@pytest.mark.parametrize(
    "shape", [shape for shape in SHAPES if shape.endswith(("pipe", "socket", "folder")) or "link" in shape]
)
def test_only_a_regular_file_is_opened_and_without_waiting(tmp_path, shape):
    path = tmp_path / "note"
    put(shape, path)
    for flags in (os.O_RDONLY, os.O_WRONLY | os.O_CREAT | os.O_APPEND):
        with pytest.raises(NotAFile):
            open_regular(path, flags)
    assert not list(tmp_path.glob("*.followed"))


def test_a_regular_file_is_read_up_to_its_limit(tmp_path):
    path = tmp_path / "note"
    with pytest.raises(FileNotFoundError):
        read_regular(path)
    for size in (0, 1, 64 * 1024):
        path.write_bytes(b"x" * size)
        assert len(read_regular(path)) == size
    put("10 GiB of nothing", path)
    with pytest.raises(NotAFile, match="more than 65536 bytes"):
        read_regular(path)


def test_the_holder_of_a_lease_is_not_waited_for(tmp_path):
    """The kernel would make an ordinary open wait for it for 45 s."""
    path = tmp_path / "note"
    path.touch()
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)
    try:
        with path.open("wb") as file:
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            with pytest.raises(BlockingIOError):
                read_regular(path)
    finally:
        signal.signal(signal.SIGIO, before)


def test_a_secret_survives_a_crash_at_its_making_and_an_empty_one_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "key"

    def crash(_: int) -> None:
        raise OSError("no room")

    with monkeypatch.context() as during:
        during.setattr(os, "fsync", crash)
        with pytest.raises(OSError, match="no room"):
            private_secret(path)
    assert list(tmp_path.iterdir()) == []
    assert len(private_secret(path)) > 32
    for lost in (b"\n", bytes(64), b"\xff" * 64):  # what file systems leave after a power cut
        path.write_bytes(lost)
        with pytest.raises(BadSettings, match="holds no usable secret"):
            private_secret(path)
