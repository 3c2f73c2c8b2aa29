"""What lets a host start an attempt as the user who submitted it: the dispatcher's credential, and the order that goes with it.

The dispatcher signs a `LaunchCredential` with Ed25519. The worker service of the host sends it to the broker
(`gpuq_broker`), together with a `UnitOrder`: what to run and how. The credential names the user and the hash of what was
submitted, so a worker service that was captured can choose neither.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, Literal

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec import Meta

from gpuq import keys

LEAST_UID = 1000
"""No job ever runs as a user with a lower number: those are root and the services of the machine (`UID_MIN` of login.defs)."""
LARGEST_REQUEST_BYTES, LARGEST_ORDER_BYTES = 65_536, 16 * 2**20
VALID_S = 600.0
"""How long a credential may be used. The clocks of two hosts may differ by less."""
JOB_FOLDER = "/run/gpuq-job"
"""Where a job that runs as its submitter sees its own folder of `Home.jobs`."""
SOCKET = "/run/gpuq-broker.sock"
SYNCED_FOLDER = f"{JOB_FOLDER}/files"
"""Where such a job has the files of `--sync`, and runs."""
TREES_SOCKET = "/run/gpuq-worker/trees.sock"
"""Where its first process gets them, from the worker service."""
LEASE_FILE = "/run/gpuq-lease"
"""The lease of the jobs of this host that run as their submitters. Its folder is root's, so the services can renew it and put no
other file in its place, which every user could then look at."""

Interactive = Literal["terminal", "notebook"]
"""How a user works in a job that is no batch job: on its terminal, or in a notebook."""
ChannelName = Literal["terminal", "notebook", "files"]
"""What the API asks a host for a connection to: one of these in a job, or the files of an attempt."""
NOT_JSON = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoding raises for bytes that are no JSON, of another type, no UTF-8, or nested too deeply."""
_Id = Annotated[int, Meta(gt=0, lt=2**53)]
# PID 1 takes 64 bits. A larger number, which a captured worker service may send, would end the broker.
_Count = Annotated[int, Meta(gt=0, lt=2**62)]
# What the command and the record set themselves, of the variables that are gpuq's.
_OF_THE_RECORD = frozenset({"GPUQ_SUBMIT_DIR", "GPUQ_ARRAY_ID", "GPUQ_ARRAY_TASK"})


class BadLaunch(ValueError):
    """A credential or an order is malformed, or the dispatcher has not signed it. The message is a sentence for the log."""


class LaunchCredential(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Attempt `attempt` of a job may start on one instance of a host, as this user, until `expires_at` (Unix seconds).

    `order` is the SHA-256 in hex of `SubmittedCommand.text`.
    """

    job: _Id
    attempt: _Id
    host: str
    instance: str
    user: str
    uid: Annotated[int, Meta(ge=0, lt=2**32)]
    order: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
    expires_at: float


class SignedCredential(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A `LaunchCredential` as JSON, and its signature in Base64."""

    text: str
    signature: str


class SubmittedCommand(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a user submitted to be run; with `tree`, in the files that this SHA-256 names.

    A default is not in the text, so that of a job without such a field stays what other releases make of it.
    """

    command: tuple[str, ...]
    cwd: str
    env: dict[str, str]
    stdin: str | None
    umask: Annotated[int, Meta(ge=0, le=0o777)]
    time_limit_s: float | None
    tree: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")] | None = None
    interactive: Interactive | None = None

    def text(self) -> str:
        """JSON that is the same for equal commands, whoever writes it."""
        return msgspec.json.encode(self, order="deterministic").decode()


class UnitOrder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a unit is to run, and within which limits. Time in seconds, memory in bytes, None for no limit.

    `submitted` is the `SubmittedCommand.text` that the credential was signed for; `env` the job's whole environment: its own
    variables and those of the host. The job runs on for `lease_s` after the last renewal of `LEASE_FILE`, None: for ever.
    `signal_before_s` and `resumes` are as in its `order.json`.
    """

    submitted: str
    env: dict[str, str]
    cores: tuple[int, ...] | None
    nodes: tuple[str, ...]
    memory_max_bytes: _Count | None
    tasks_max: _Count | None
    grace_s: Annotated[float, Meta(ge=0, le=1e6)]
    save_grace_s: Annotated[float, Meta(ge=0, le=1e6)]
    checkpoint_signal: Annotated[int, Meta(gt=0, lt=32)]
    log_limit_bytes: _Count
    lease_s: Annotated[float, Meta(gt=0, le=1e6)] | None = None
    signal_before_s: Annotated[float, Meta(gt=0, le=1e6)] | None = None
    resumes: bool = False


class StartUnit(msgspec.Struct, frozen=True, tag="start"):
    """To the broker: start the unit that this credential is for. The `UnitOrder` comes with it as a file."""

    credential: SignedCredential


class StopUnit(msgspec.Struct, frozen=True, tag="stop"):
    """To the broker: end the unit of this attempt. With `save`, only ask its shim to let the job save its work first."""

    job: _Id
    attempt: _Id
    save: bool = False


class Answer(msgspec.Struct, frozen=True):
    """From the broker: None if it was done, or may have been, else a sentence why not. `final`: asking again will not help."""

    refused: str | None = None
    final: bool = False


Request = StartUnit | StopUnit


def unit_name(job: int, attempt: int) -> str:
    """The systemd unit of an attempt that runs as its submitter."""
    return f"gpuq-{job}-{attempt}.service"


def reaches_job(variable: str) -> bool:
    """Whether a variable that was submitted is one of the job's: those of gpuq's own settings are not."""
    return not variable.startswith("GPUQ_") or variable in _OF_THE_RECORD


def digest(text: str) -> str:
    """The SHA-256 of a `SubmittedCommand.text`, in hex."""
    return hashlib.sha256(text.encode()).hexdigest()


def signed(credential: LaunchCredential, key: Ed25519PrivateKey) -> SignedCredential:
    """The credential, signed by the dispatcher."""
    text = msgspec.json.encode(credential)
    return SignedCredential(text.decode(), keys.sign(key, text))


def opened(signed: SignedCredential, public: str) -> LaunchCredential:
    """The credential, if the owner of this public key has signed it. Raises BadLaunch."""
    text = signed.text.encode(errors="replace")
    if not keys.is_signed(text, signed.signature, public):
        raise BadLaunch("the dispatcher has not signed this credential")
    credential: LaunchCredential = decoded(text, LaunchCredential)
    return credential


def decoded(raw: bytes, kind: Any) -> Any:
    """The message of this type in `raw`. Raises BadLaunch."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except NOT_JSON as error:
        raise BadLaunch(f"it cannot be read: {error}") from error
