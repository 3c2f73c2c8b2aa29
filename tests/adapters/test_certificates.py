"""The authority of the main host: what it issues holds in TLS, and what another issues does not."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding

from gpuq.adapters.certificates import Authority, new_request
from gpuq.errors import BadInput

DAY = 86_400


def test_a_certificate_names_the_host_that_was_decided_on_and_not_the_one_in_the_request(tmp_path: Path) -> None:
    _, request = new_request("root-of-all")
    issued = Authority(tmp_path, time.time).issue("node2", request)
    certificate = x509.load_pem_x509_certificate(issued.pem.encode())
    assert certificate.subject.rfc4514_string() == "CN=node2"
    assert format(certificate.serial_number, "x") == issued.serial
    assert certificate.not_valid_after_utc.timestamp() == issued.expires_at
    usage = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
    assert not usage.ca, "a host cannot issue certificates"


def test_both_processes_of_the_main_host_have_one_authority(tmp_path: Path) -> None:
    authorities = [Authority(tmp_path, time.time) for _ in range(2)]
    names = ["main.example.org", "10.0.0.1"]
    assert authorities[0].fingerprint(names) == authorities[1].fingerprint(names)
    assert {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == dict.fromkeys(
        ("ca.key", "ca.pem", "main.key", "main.pem"), 0o600
    )


@pytest.mark.parametrize(
    ("days", "names", "is_same"), [(8 * 365, ["a"], True), (9.5 * 365, ["a"], False), (1, ["b"], False)]
)
def test_the_listeners_certificate_is_renewed_in_its_last_year_or_under_other_names(
    tmp_path: Path, days: float, names: list[str], is_same: bool
) -> None:
    now = time.time()
    before = Authority(tmp_path, lambda: now).fingerprint(["a"])
    assert (Authority(tmp_path, lambda: now + days * DAY).fingerprint(names) == before) is is_same


def test_what_is_no_request_of_an_ed25519_key_is_refused(tmp_path: Path) -> None:
    authority = Authority(tmp_path, time.time)
    key = ec.generate_private_key(ec.SECP256R1())
    other = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, SHA256())
    for request in ("", "nonsense", other.public_bytes(Encoding.PEM).decode()):
        with pytest.raises(BadInput):
            authority.issue("node2", request)
