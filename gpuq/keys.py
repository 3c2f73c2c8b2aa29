"""Ed25519 keys: who has the private key signs, and whoever has the public key can check it but sign nothing.

HMAC (`gpuq.home.host_key`) is for messages between two parties that trust each other. These are for what a third one checks: the
process that starts jobs as their users must know that an order is the dispatcher's, and must not be able to write one.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
import secrets
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from gpuq.errors import BadSettings


def private_key(path: Path) -> Ed25519PrivateKey:
    """The key in `path`, PKCS #8 in PEM in a file of mode 0600, which the first call creates.

    The file appears atomically, so several processes may call this at once and all get the same key. Raises BadSettings for a
    file that holds another kind of key, and OSError.
    """
    if not path.exists():
        pem = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(pem)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
        draft.unlink()
    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except (ValueError, TypeError) as error:
        raise _unreadable(path) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise _unreadable(path)
    return key


def public_text(key: Ed25519PrivateKey) -> str:
    """The public key as text: its 32 bytes in Base64 (RFC 8032, RFC 4648)."""
    return base64.b64encode(key.public_key().public_bytes_raw()).decode()


def sign(key: Ed25519PrivateKey, message: bytes) -> str:
    """The signature of `message`: 64 bytes in Base64."""
    return base64.b64encode(key.sign(message)).decode()


def is_signed(message: bytes, signature: str, public: str) -> bool:
    """Whether the owner of `public` (as from `public_text`) signed this message. False also for text that is neither."""
    try:
        key = Ed25519PublicKey.from_public_bytes(base64.b64decode(public, validate=True))
        key.verify(base64.b64decode(signature, validate=True), message)
    except (InvalidSignature, ValueError, binascii.Error):
        return False
    return True


def _unreadable(path: Path) -> BadSettings:
    return BadSettings(
        f"{path} does not hold an Ed25519 key.",
        fix="Restore it from your backup, or move it away and join the hosts again.",
    )
