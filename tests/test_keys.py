"""Keys in files: made once, private to their owner, and of use only for what they signed."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gpuq.errors import BadSettings
from gpuq.keys import is_signed, private_key, public_text, sign


def test_a_key_is_made_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "dispatcher.key"
    with ThreadPoolExecutor(8) as pool:
        publics = {public_text(key) for key in pool.map(private_key, [path] * 8)}
    assert len(publics) == 1
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["dispatcher.key"]


def test_a_signature_holds_for_its_message_and_its_key_only(tmp_path: Path) -> None:
    ours, other = private_key(tmp_path / "ours"), private_key(tmp_path / "other")
    signature = sign(ours, b"launch 1-1 as alice")
    assert is_signed(b"launch 1-1 as alice", signature, public_text(ours))
    assert not is_signed(b"launch 1-1 as root", signature, public_text(ours))
    assert not is_signed(b"launch 1-1 as alice", signature, public_text(other))
    assert not is_signed(b"launch 1-1 as alice", "not Base64!", public_text(ours))
    assert not is_signed(b"launch 1-1 as alice", signature, "c2hvcnQ=")


@pytest.mark.parametrize(
    "content", [b"", b"not a key", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"]
)
def test_a_file_that_holds_no_key_is_refused_and_kept(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "dispatcher.key"
    path.write_bytes(content)
    with pytest.raises(BadSettings, match="does not hold an Ed25519 key"):
        private_key(path)
    assert path.read_bytes() == content
