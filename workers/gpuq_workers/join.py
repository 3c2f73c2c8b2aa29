"""Join a main host: `python -m gpuq_workers.join`, run by the command that `gpuq host add` printed.

It makes the key of this host, which never leaves it, and gets a certificate for it from the server that the command names by the
fingerprint of its own. Standard input has the address, the fingerprint, the host's name and the secret, as JSON.
"""

from __future__ import annotations

import hashlib
import http.client
import ssl
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import Any, Literal
from urllib.parse import urlencode

import msgspec

from gpuq.adapters.certificates import new_request
from gpuq.adapters.main_host import Joined, joined, problem_in
from gpuq.errors import BadInput, Conflict, GpuqError, NotPermitted, Unreachable
from gpuq.home import Home, write_private
from gpuq.logs import report
from gpuq.settings import Settings, load

_ANSWER_WITHIN_S = 10.0


class Invitation(msgspec.Struct, frozen=True):
    """What the printed command has, and as whom jobs run. `main` is `name:port`, `fingerprint` the SHA-256 of the server's
    certificate in hex."""

    main: str
    fingerprint: str
    host: str
    secret: str
    run_as: Literal["service", "submitter"] = "service"


def main() -> int:
    """Join, and return the exit code."""
    try:
        given = msgspec.json.decode(sys.stdin.buffer.read(), type=Invitation)
        join(Home.from_environment(), given)
    except msgspec.MsgspecError:
        return report(BadInput("This is no invitation.", fix="Run the command that `gpuq host add` printed."))
    except GpuqError as error:
        return report(error)
    return 0


def join(home: Home, invitation: Invitation) -> None:
    """Make this home that of a host of the main host. Raises BadSettings, Conflict, NotPermitted, Unreachable."""
    home.create()
    home.tls.mkdir(mode=0o700, exist_ok=True)
    found = joined(home)
    if found is not None:
        raise Conflict(
            f"{home.root} is the home of host {found.host}, which joined {found.main[0]}.",
            fix=f"To join another main host, stop gpuq-worker and remove {home.joined_file}.",
        )
    if home.order_key_file.exists():
        raise Conflict(
            f"{home.root} is the home of a main host: it has {home.order_key_file.name}.",
            fix="Set GPUQ_HOME to an empty folder.",
        )
    if home.settings_file.exists() and _settings(home).worker.run_as != invitation.run_as:
        raise Conflict(
            f"{home.settings_file} has another `run_as` than the main host.",
            fix=f'Set `run_as = "{invitation.run_as}"` under [worker] there, and run the command again.',
        )
    key, request = new_request(invitation.host)
    answer = _ask(invitation, request)
    write_private(home.authority_file, answer["authority"].encode())
    write_private(home.host_certificate_file, (key + answer["certificate"]).encode())
    write_private(home.host_key_file, answer["host_key"].encode())
    if not home.settings_file.exists():
        lines = ("[worker]", f'host = "{invitation.host}"', f'run_as = "{invitation.run_as}"', "")
        write_private(home.settings_file, "\n".join(lines).encode())
    # The last one: with it this is the home of a host that joined.
    where = Joined(invitation.host, tuple(answer["main"]))
    write_private(home.joined_file, msgspec.json.encode(where))


def _settings(home: Home) -> Settings:
    return load({"GPUQ_HOME": str(home.root)}, warn=lambda _: None)


def clock_ahead_s(invitation: Invitation, clock: Callable[[], float]) -> float | None:
    """By how much the clock of this host is ahead of the main host's, to a second or two; None if that does not say its time.
    Raises NotPermitted, Unreachable."""
    with _connected(invitation) as connection:
        connection.request("HEAD", "/join.py")
        said = connection.getresponse().headers["Date"]
        return None if said is None else clock() - parsedate_to_datetime(said).timestamp()


def _ask(invitation: Invitation, request: str) -> dict[str, Any]:
    """The answer of the main host. Raises NotPermitted if it refuses."""
    with _connected(invitation) as connection:
        body = msgspec.json.encode({"request": request})
        headers = {"Authorization": f"Bearer {invitation.secret}", "Content-Type": "application/json"}
        connection.request("POST", f"/join?{urlencode({'host': invitation.host})}", body, headers)
        answer = connection.getresponse()
        raw = answer.read()
    if answer.status != 200:
        raise problem_in(raw, answer.status)
    found: dict[str, Any] = msgspec.json.decode(raw)
    return found


@contextmanager
def _connected(invitation: Invitation) -> Iterator[http.client.HTTPSConnection]:
    """A connection to the main host. Raises NotPermitted if it is not the one that the fingerprint names, and Unreachable."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Its authority is not known here yet: the fingerprint takes its place.
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection(invitation.main, timeout=_ANSWER_WITHIN_S, context=context)
    try:
        connection.connect()
        assert isinstance(connection.sock, ssl.SSLSocket)
        certificate = connection.sock.getpeercert(binary_form=True)
        if certificate is None or hashlib.sha256(certificate).hexdigest() != invitation.fingerprint:
            raise NotPermitted(
                f"{invitation.main} is not the main host that made this command.",
                fix="Run `gpuq host add` on the main host again, and see who answers at that address.",
            )
        yield connection
    except (OSError, http.client.HTTPException) as error:
        raise Unreachable(
            f"The main host at {invitation.main} does not answer: {error}.",
            fix="Is gpuq-hosts running there, and its port open to this host?",
        ) from error
    finally:
        connection.close()


if __name__ == "__main__":
    sys.exit(main())
