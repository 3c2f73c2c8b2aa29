"""Certificates: a small authority on the main host, for its own listener and for the hosts that join it. X.509, Ed25519, PEM.

Both sides trust this authority alone. A certificate says which host has the key; whether that host still belongs to this gpuq is
in the record, so a certificate that was replaced or forgotten ends at once although it is still valid.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from gpuq.errors import BadInput
from gpuq.home import write_private
from gpuq.keys import private_key

HOST_DAYS = 365
_MAIN_DAYS, _MAIN_LEFT_DAYS, _AUTHORITY_DAYS = 3650, 365, 36_500
# The clocks of two hosts may differ.
_BEFORE = timedelta(days=1)
_AUTHORITY = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "gpuq hosts")])


@dataclass(frozen=True)
class Issued:
    """A certificate of a host. `serial` is hexadecimal, `expires_at` in Unix seconds."""

    pem: str
    serial: str
    expires_at: float


class Authority:
    """The authority whose key and certificate are in `folder`, made at the first use. Several processes may have it open."""

    def __init__(self, folder: Path, clock: Callable[[], float]) -> None:
        self._folder, self._clock = folder, clock
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._key = private_key(folder / "ca.key")
        self.file = folder / "ca.pem"
        if not self.file.exists():
            _create(self.file, self._make_own())
        self._own = x509.load_pem_x509_certificate(self.file.read_bytes())

    def main_files(self, names: Sequence[str]) -> tuple[Path, Path]:
        """(certificate, key) of the listener that hosts reach under these names or addresses; renewed in its last year."""
        key, file = private_key(self._folder / "main.key"), self._folder / "main.pem"
        wanted = x509.SubjectAlternativeName([_name(name) for name in names])
        if not (file.exists() and self._serves(file, wanted)):
            usage, days = ExtendedKeyUsageOID.SERVER_AUTH, _MAIN_DAYS
            made = self._builder(_common_name("gpuq main host"), key.public_key(), days, usage)
            signed = made.add_extension(wanted, critical=False).sign(self._key, None)
            write_private(file, signed.public_bytes(Encoding.PEM))
        return file, self._folder / "main.key"

    def fingerprint(self, names: Sequence[str]) -> str:
        """SHA-256 of the listener's certificate, in hex."""
        file, _ = self.main_files(names)
        return x509.load_pem_x509_certificate(file.read_bytes()).fingerprint(SHA256()).hex()

    def issue(self, host: str, request: str) -> Issued:
        """A certificate for `host` and the key that signed this request (PKCS #10); the rest of the request is not used.

        Raises BadInput for anything but a request of an Ed25519 key.
        """
        try:
            wanted = x509.load_pem_x509_csr(request.encode())
            key = wanted.public_key()
            is_sound = wanted.is_signature_valid
        except ValueError:
            raise BadInput(
                "This is not a request for a certificate.", fix="Use the same release on both hosts."
            ) from None
        if not isinstance(key, Ed25519PublicKey) or not is_sound:
            raise BadInput("The request is not signed by an Ed25519 key.", fix="Use the same release on both hosts.")
        made = self._builder(_common_name(host), key, HOST_DAYS, ExtendedKeyUsageOID.CLIENT_AUTH).sign(self._key, None)
        return Issued(
            made.public_bytes(Encoding.PEM).decode(),
            format(made.serial_number, "x"),
            made.not_valid_after_utc.timestamp(),
        )

    def _serves(self, file: Path, names: x509.SubjectAlternativeName) -> bool:
        found = x509.load_pem_x509_certificate(file.read_bytes())
        left = found.not_valid_after_utc - datetime.fromtimestamp(self._clock(), UTC)
        has = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return has == names and left > timedelta(days=_MAIN_LEFT_DAYS)

    def _make_own(self) -> bytes:
        public = self._key.public_key()
        signs = x509.KeyUsage(**{**_NO_USAGE, "key_cert_sign": True, "crl_sign": True})
        made = (
            self._dated(_AUTHORITY, public, _AUTHORITY_DAYS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(signs, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        )
        return made.sign(self._key, None).public_bytes(Encoding.PEM)

    def _builder(
        self, subject: x509.Name, key: Ed25519PublicKey, days: int, usage: x509.ObjectIdentifier
    ) -> x509.CertificateBuilder:
        signs = x509.KeyUsage(**{**_NO_USAGE, "digital_signature": True})
        return (
            self._dated(subject, key, days)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(signs, critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )

    def _dated(self, subject: x509.Name, key: Ed25519PublicKey, days: int) -> x509.CertificateBuilder:
        now = datetime.fromtimestamp(self._clock(), UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(_AUTHORITY)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _BEFORE)
            .not_valid_after(now + timedelta(days=days))
        )


def new_request(host: str) -> tuple[str, str]:
    """(a new private key, the request for its certificate), both in PEM. The key is in no file yet."""
    key = Ed25519PrivateKey.generate()
    request = x509.CertificateSigningRequestBuilder().subject_name(_common_name(host)).sign(key, None)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return pem.decode(), request.public_bytes(Encoding.PEM).decode()


_NO_USAGE = dict.fromkeys(
    (
        "digital_signature",
        "content_commitment",
        "key_encipherment",
        "data_encipherment",
        "key_agreement",
        "key_cert_sign",
        "crl_sign",
        "encipher_only",
        "decipher_only",
    ),
    False,
)


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _create(path: Path, content: bytes) -> None:
    """Write a file unless another process has done so."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    write_private(draft, content)
    with contextlib.suppress(FileExistsError):
        os.link(draft, path)
    draft.unlink()
