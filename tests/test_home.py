"""Where things are kept, closed to others; secrets made once and whole."""

import stat
from pathlib import Path

import pytest

from gpuq.errors import BadSettings
from gpuq.home import Home, host_key, key_of_this_host, private_secret, write_private


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

    home.host_key_file.write_text("0123abcd\n")
    assert key_of_this_host(home, "node1") == "0123abcd"

    home.host_key_file.write_text("\n")
    with pytest.raises(BadSettings, match="empty") as raised:
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
    with pytest.raises(OSError, match="symbolic"):
        write_private(path, b"last", durable=durable)
    assert not others.exists()
    assert path.read_bytes() == b"next"
