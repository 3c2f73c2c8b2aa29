"""The HTTP API from the caller's side: `http.client` over the home's Unix socket, or over TCP with the token.

Calls return plain JSON, or raise the `gpuq.errors` class that the server's problem document names. A request is repeated only
if it reads or carries an idempotency key.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import socket
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from gpuq import __version__
from gpuq.cli import console
from gpuq.cli.connection import UnixConnection, is_over, wait_while_connected
from gpuq.cli.logins import Logins, plain
from gpuq.errors import BadInput, Conflict, Failure, GpuqError, NeverFits, NotFound, NotPermitted, Unreachable
from gpuq.format import with_local_times
from gpuq.home import SHARED_SOCKET, Home

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` would cost the fast path some milliseconds
    import ssl
    from typing import Any

    Record = dict[str, Any]
else:
    Record = dict

TIMEOUT_S = 30.0
RETRY_S = 10.0
AWAY_S = 60.0
"""How long the command waits for an endpoint that is away while other parts of its gpuq run."""
_NOTE_AFTER_S = 1.0
_LOOK_EVERY_S = 0.2
# Each service holds the lock of its name while it runs; the kernel releases it when the service ends.
_LOCKS = ("up.lock", "dispatcher.lock", "worker.lock")
_BY_EXIT_CODE: dict[int, type[GpuqError]] = {
    cls.exit_code: cls for cls in (BadInput, NotFound, Unreachable, NotPermitted, Conflict, NeverFits)
}
_BY_STATUS: dict[int, type[GpuqError]] = {
    **dict.fromkeys((400, 413, 422), BadInput),
    **dict.fromkeys((401, 403), NotPermitted),
    404: NotFound,
    409: Conflict,
    **dict.fromkeys((502, 503, 504), Unreachable),  # 502 and 504 are of a proxy that had no answer from gpuq
}
THIS_MACHINE = frozenset({"127.0.0.1", "localhost", "::1"})
"""What an address on this machine is called."""
_IN_SLURM = "`gpuq up --in-slurm` says where its Slurm job is, and requests another if it has ended."


class Lost(Unreachable):
    """It is unknown whether the request was carried out: the connection broke after it was sent, or the answer was 503."""


class HttpClient:
    """One gpuq. Keeps its connection between calls.

    While the endpoint is away but another part of its gpuq runs, calls wait up to `away_s` seconds: the supervisor restarts the
    endpoint. Over TCP other parts cannot be seen, so calls do not wait.
    """

    def __init__(
        self,
        host: str | None = None,
        environ: Mapping[str, str] | None = None,
        *,
        away_s: float = AWAY_S,
        login: Mapping[str, str] | None = None,
    ) -> None:
        """`login` is the entry of `gpuq.cli.logins` for this address, if not the one in the user's file."""
        values = dict(os.environ if environ is None else environ)
        self._away_s = away_s
        self._warned = False
        self._login = login
        named = host or values.get("GPUQ_HOST")
        self.address = named or _usual_address(values)
        self._in_slurm = not named and self.address.startswith("https:")
        self._headers = {"Accept": "application/json", "User-Agent": "gpuq"}
        self._connection = self._open(values)

    @classmethod
    def of(cls, options: argparse.Namespace, *, away_s: float = AWAY_S) -> HttpClient:
        """The gpuq that the command line names with --host, else the environment's."""
        return cls(options.host, away_s=away_s)

    def get(self, path: str, **query: object) -> Any:
        """The JSON at `path`; parameters whose value is None are left out. Raises GpuqError."""
        return self._call("GET", with_query(path, query), None, {})

    def look(self, path: str) -> Any:
        """The JSON at `path`, whatever the status: a probe that returns 503 has answered."""
        return _parse(self._read(self._send("GET", path, None, {})))

    def server_time(self) -> float | None:
        """The server's clock in Unix seconds, from its Date header; None without one."""
        response = self._send("GET", "/livez", None, {})
        self._read(response)
        from email.utils import parsedate_to_datetime

        try:
            return parsedate_to_datetime(response.headers["Date"]).timestamp()
        except (TypeError, ValueError):
            return None

    def post(self, path: str, body: object = None, *, key: str | None = None, patient: bool = False) -> Any:
        """The JSON answer to a POST. With an idempotency `key` it is repeated for up to ten seconds if it may not have been done.

        `patient`: without a timeout, because the answer may take minutes.
        """
        payload = json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        if patient:
            self._connection.timeout = None
        if key is None:
            return self._call("POST", path, payload, headers)
        # The key makes the repetition safe: the server returns the job of the first request instead of a second one.
        headers["Idempotency-Key"] = key
        started, noted = time.monotonic(), False
        deadline: float | None = None
        while True:
            try:
                return self._call("POST", path, payload, headers)
            except Unreachable as error:
                # Repeated only after a request was sent. Before that nothing has happened, and the user learns it at once.
                if deadline is None and not isinstance(error, Lost):
                    raise
                now = time.monotonic()
                deadline = deadline or now + RETRY_S
                if now > deadline:
                    raise Lost(error.message, fix=error.fix) from error
                if now - started >= _NOTE_AFTER_S and not noted:
                    noted = True
                    console.note(f"gpuq: {error.message} Trying again for up to {RETRY_S:.0f} s.")
            time.sleep(0.2)

    def send(self, path: str, pieces: Iterable[bytes], length: int) -> Any:
        """The JSON answer to a POST of these bytes, which are `length` together."""
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(length)}
        return self._call("POST", path, pieces, headers)

    def stream(self, path: str, **query: object) -> Iterator[bytes]:
        """The body at `path` in chunks as they come, until the server ends it. Raises Lost if it breaks off."""
        response = self._send("GET", with_query(path, query), None, {"Accept": "*/*"})
        if response.status >= 400:
            self._checked(response)
        if self._connection.sock is not None:
            wait_while_connected(self._connection.sock)
        try:
            while chunk := response.read1(65536):
                yield chunk
        except (http.client.HTTPException, OSError) as error:
            raise Lost(f"The connection to {self.address} broke off.") from error
        finally:
            self._connection.close()

    def piece(self, path: str, **query: object) -> tuple[bytes, http.client.HTTPMessage]:
        """(body at `path`, headers of the answer)."""
        response = self._send("GET", with_query(path, query), None, {"Accept": "*/*"})
        return self._checked(response), response.headers

    def upgrade(self, path: str, headers: Mapping[str, str]) -> socket.socket:
        """The connection, which belongs to another protocol from now on: the endpoint has answered 101. It has no timeout.

        The other side waits for what comes first from here, so nothing of it can be lost in the answer's buffer.
        """
        response = self._send("GET", path, None, headers)
        if response.status != 101:
            self._checked(response)
            raise Failure("The endpoint does not speak WebSocket; is a proxy before it?", fix="Let it pass `Upgrade`.")
        connection: socket.socket = self._connection.sock
        wait_while_connected(connection)
        return connection

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _call(self, method: str, path: str, payload: bytes | Iterable[bytes] | None, headers: Mapping[str, str]) -> Any:
        answer = source = _parse(self._checked(self._send(method, path, payload, headers)))
        if isinstance(answer, dict) and isinstance(jobs := answer.get("jobs"), list) and jobs:
            source = jobs[0]
        if isinstance(source, dict) and source.get("dispatcher") in {"stale", "absent"} and not self._warned:
            self._warned = True
            console.note(
                "gpuq: the dispatcher gives no sign of life: jobs are kept and run on, but none starts until it is back.\n"
                "  `gpuq doctor` checks each part."
            )
        return answer

    def _send(
        self,
        method: str,
        path: str,
        payload: bytes | Iterable[bytes] | None,
        headers: Mapping[str, str],
        *,
        again: bool = True,
    ) -> http.client.HTTPResponse:
        if self._connection.sock is not None and is_over(self._connection.sock):
            self._connection.close()
        if self._connection.sock is None:
            self._connect()
        try:
            self._connection.request(method, path, payload, {**self._headers, **headers})
            return self._connection.getresponse()
        except http.client.InvalidURL as error:  # before anything is sent
            raise BadInput(f"{path!r} is no address of the API: {error}.") from error
        except KeyboardInterrupt:
            self._connection.close()  # its answer is still to come, and would be in the way of the next call
            if method != "GET":
                console.note(
                    "\ngpuq: no answer came yet; see with `gpuq queue` whether it was done before you try again."
                )
            raise
        except (http.client.HTTPException, OSError) as error:
            self._connection.close()
            # A read may be repeated: the endpoint was restarted, or has closed the connection that we had kept.
            if method == "GET" and again and not isinstance(error, TimeoutError):
                return self._send(method, path, payload, headers, again=False)
            raise Lost(
                f"The connection to {self.address} broke before an answer came: {error or type(error).__name__}.",
                fix="See with `gpuq queue` whether it was done before you try again.",
            ) from error

    def _connect(self) -> None:
        started, noted = time.monotonic(), False
        while True:
            try:
                self._connection.connect()
            except OSError as error:
                self._connection.close()
                away_s = time.monotonic() - started
                if away_s >= self._away_s or not self._comes_back(error):
                    raise _unreachable(self.address, error, _IN_SLURM if self._in_slurm else None) from error
                if away_s >= _NOTE_AFTER_S and not noted:
                    noted = True
                    console.note(f"gpuq: the endpoint does not answer; waiting for it, up to {self._away_s:.0f} s.")
                time.sleep(_LOOK_EVERY_S)
            else:
                return

    def _comes_back(self, error: OSError) -> bool:
        """Whether the endpoint should return: another part of the gpuq that owns this socket holds its lock."""
        if not isinstance(error, FileNotFoundError | ConnectionRefusedError):
            return False
        if not isinstance(self._connection, UnixConnection):
            return False
        return any(is_held(self._connection.path.with_name(name)) for name in _LOCKS)

    def _checked(self, response: http.client.HTTPResponse) -> bytes:
        """The body of the answer. Raises the error of a problem document, else one chosen by the HTTP status."""
        raw = self._read(response)
        if response.status < 400:
            return raw
        try:
            body = json.loads(raw)
        except ValueError:
            body = None
        problem: Record = body if isinstance(body, dict) else {}
        code = problem.get("exit_code")
        cls = _BY_EXIT_CODE.get(code) if isinstance(code, int) else None
        if cls is None:
            cls = Failure if "exit_code" in problem else _BY_STATUS.get(response.status, Failure)
        if cls is Unreachable:
            cls = Lost
        detail = problem.get("detail") or problem.get("title")
        sentence = str(detail or f"The daemon answered with HTTP status {response.status}.")
        fix = problem.get("hint") or cls.fix
        if response.status in (404, 405, 422):
            fix += self._other_release()
        raise cls(with_local_times(sentence), fix=fix)

    def _other_release(self) -> str:
        """Which releases these are, where they differ: the endpoint may not know yet what was asked for."""
        with suppress(GpuqError, LookupError, TypeError):
            found = self.look("/version")["version"]
            if found != __version__:
                return f" This is gpuq {__version__}, and gpuq {found} answers; `--help` is of this one."
        return ""

    def _read(self, response: http.client.HTTPResponse) -> bytes:
        try:
            return response.read()
        except KeyboardInterrupt:
            self._connection.close()
            raise
        except (http.client.HTTPException, OSError) as error:
            self._connection.close()
            raise Lost(f"The answer from {self.address} broke off.") from error

    def _open(self, environ: Mapping[str, str]) -> http.client.HTTPConnection:
        scheme, _, rest = self.address.partition("://")
        if scheme == "unix" and rest.startswith("/"):
            return UnixConnection(Path(rest), TIMEOUT_S)
        host, port = host_and_port(self.address)
        if scheme == "http" and host not in THIS_MACHINE:
            raise BadInput(
                f"{self.address} is not this machine, and over plain http your token could be read on the way.",
                fix="Use https, or a tunnel: ssh -L 8780:localhost:8780 HOST, then --host http://127.0.0.1:8780.",
            )
        login = Logins.read(environ).tokens.get(plain(self.address), {}) if self._login is None else self._login
        if not login and self._in_slurm:
            login = {"ca_file": str(Home.from_environment(dict(environ)).authority_file)}
        token = environ.get("GPUQ_TOKEN") or login.get("token")
        if not token and (host in THIS_MACHINE or self._in_slurm):  # that of this home is no other gpuq's business
            try:
                token = Home.from_environment(dict(environ)).token_file.read_text(encoding="ascii").strip()
            except (OSError, UnicodeDecodeError):
                token = None  # the server then says that it needs one
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        if scheme == "https":
            return http.client.HTTPSConnection(host, port, timeout=TIMEOUT_S, context=_tls(login.get("ca_file")))
        return http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)


def _usual_address(environ: dict[str, str]) -> str:
    """That of the last `gpuq login`, unless GPUQ_HOME names a gpuq; else a socket of this machine."""
    address = None if environ.get("GPUQ_HOME") else Logins.read(environ).address
    return address or _in_slurm(environ) or f"unix://{_nearest_socket(environ)}"


def _in_slurm(environ: dict[str, str]) -> str | None:
    """That of the user's gpuq in a Slurm job; None if it was not started in one. Raises Unreachable while it does not run."""
    home = Home.from_environment(environ)
    try:
        found: Record = json.loads(home.main_job_file.read_bytes())
        url, job = found["url"], found["slurm_job"]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise Unreachable(
            f"{home.main_job_file} cannot be read.", fix="`gpuq up --in-slurm` writes it again."
        ) from error
    if url is None:
        raise Unreachable(f"gpuq does not run: its Slurm job {job} waits, or has ended.", fix=_IN_SLURM)
    return str(url)


def _tls(ca_file: str | None) -> ssl.SSLContext:
    """Checks certificates against the system's authorities, or the one in `ca_file`. Raises BadInput."""
    import ssl

    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise BadInput(f"{ca_file} holds no authority's certificate.", fix="Name a PEM file with --ca-file.") from error


def _nearest_socket(environ: dict[str, str]) -> Path:
    """The socket of the user's own gpuq; for a user without one, that of the gpuq which this machine's users share."""
    home = Home.from_environment(environ)
    alone = environ.get("GPUQ_HOME") or home.is_in_use or not SHARED_SOCKET.exists()
    return home.api_socket if alone else SHARED_SOCKET


def sends_notifications(environ: Mapping[str, str]) -> bool:
    """Whether a process of the user sends notifications; `gpuq up` starts one within seconds."""
    from gpuq.notify_file import state_folder

    return is_held(state_folder(environ) / "lock") or is_held(Home.from_environment(dict(environ)).run / "up.lock")


def is_held(lock: Path) -> bool:
    """Whether a process holds this lock file."""
    import fcntl

    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        # A shared lock, so that two commands that check at once do not take each other for a service.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def new_key() -> str:
    """A random idempotency key."""
    return os.urandom(16).hex()


def with_query(path: str, query: Mapping[str, object]) -> str:
    """`path` with the parameters of `query` that are not None. Raises BadInput for text that is not Unicode."""
    given = {name: str(value) for name, value in query.items() if value is not None}
    if not given:
        return path
    from urllib.parse import urlencode

    try:
        return f"{path}?{urlencode(given)}"
    except UnicodeEncodeError as error:
        raise BadInput(f"{error.object!a} is not valid UTF-8.", fix="Use other characters.") from error


def host_and_port(address: str) -> tuple[str, int | None]:
    """Those of an address with http or https. Raises BadInput."""
    scheme, _, rest = address.rstrip("/").partition("://")
    host, colon, port = rest.rpartition(":") if not rest.endswith("]") else (rest, "", "")
    if not colon:
        host, port = rest, ""
    host = host.removeprefix("[").removesuffix("]")
    if scheme not in {"http", "https"} or not host or "/" in rest or (port and not port.isdecimal()):
        fix = "Write http://127.0.0.1:8780 or unix:///path/to/api.sock."
        raise BadInput(f"`{address}` is no address of a gpuq.", fix=fix)
    return host, int(port) if port else None


def _parse(raw: bytes) -> Any:
    if not raw:
        return None
    try:
        return json.loads(raw)
    except ValueError as error:
        raise Failure("The answer is not JSON; is this really a gpuq?", fix="Check --host and GPUQ_HOST.") from error


def _unreachable(address: str, error: OSError, fix: str | None = None) -> GpuqError:
    if isinstance(error, FileNotFoundError | ConnectionRefusedError):
        return Unreachable(f"No gpuq is running at {address}.", fix=fix)
    if getattr(error, "verify_code", None) is not None:
        fix = "If its certificate is of an authority of your own: gpuq login URL --ca-file FILE"
        return Unreachable(f"{address} has a certificate that cannot be trusted: {error.verify_message}.", fix=fix)  # type: ignore[attr-defined]
    if not isinstance(error, PermissionError):
        return Unreachable(f"gpuq at {address} does not answer: {error.strerror or error}.", fix=fix)
    # The caller's own folder above the socket may lack its execute permission.
    with suppress(OSError):
        for folder in reversed(Path(address.removeprefix("unix://")).parents):
            status = folder.stat()
            if status.st_uid == os.geteuid() and not status.st_mode & 0o100:
                return NotPermitted(f"You may not enter your own folder {folder}.", fix=f"chmod u+rwx {folder}")
    return NotPermitted(f"{address} belongs to another user.", fix="Set GPUQ_HOME to the home of your own gpuq.")
