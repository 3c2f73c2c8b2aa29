"""Credentials: signed by the dispatcher, and the same text for the same command on both hosts."""

from __future__ import annotations

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gpuq import keys
from gpuq.messages import launch
from gpuq.messages.submission import Submission, command_of
from tests.support.broker import COMMAND, KEY, credential, signed_credential


def test_a_credential_opens_as_it_was_signed() -> None:
    assert launch.opened(signed_credential(), keys.public_text(KEY)) == credential()


@pytest.mark.parametrize(
    "public", [keys.public_text(Ed25519PrivateKey.generate()), "", "not a key"], ids=["another's", "none", "nonsense"]
)
def test_it_opens_with_the_dispatchers_key_only(public: str) -> None:
    with pytest.raises(launch.BadLaunch):
        launch.opened(signed_credential(), public)


@pytest.mark.parametrize("text", ["{}", "[]", '{"job":0}', "", "\udcff"])
def test_signed_nonsense_is_no_credential(text: str) -> None:
    signature = keys.sign(KEY, text.encode(errors="replace"))
    with pytest.raises(launch.BadLaunch):
        launch.opened(launch.SignedCredential(text, signature), keys.public_text(KEY))


def test_the_text_of_a_command_does_not_depend_on_the_order_of_its_variables() -> None:
    one = Submission(command=("x",), cwd="/", env={"A": "1", "B": "ä\udcff"[:1]})
    other = msgspec.json.decode(msgspec.json.encode(one), type=Submission)
    turned = msgspec.structs.replace(other, env=dict(reversed(other.env.items())))
    assert command_of(one).text() == command_of(turned).text()
    assert launch.digest(command_of(one).text()) != launch.digest(COMMAND.text())


def test_how_a_user_works_in_a_job_is_part_of_what_is_signed() -> None:
    batch = Submission(command=("bash",), cwd="/", env={})
    texts = [
        command_of(msgspec.structs.replace(batch, interactive=entry)).text() for entry in (None, "terminal", "notebook")
    ]
    assert len(set(texts)) == 3


def test_the_text_of_a_batch_job_is_that_of_releases_that_knew_no_other() -> None:
    """Else a host of another release than the dispatcher's could start nothing."""
    fields = '{"command":["true"],"cwd":"/","env":{},"stdin":null,"umask":18,"time_limit_s":null}'
    assert command_of(Submission(command=("true",), cwd="/", env={}, umask=0o022)).text() == fields


def test_units_are_named_by_attempt() -> None:
    assert launch.unit_name(7, 2) == "gpuq-7-2.service"
