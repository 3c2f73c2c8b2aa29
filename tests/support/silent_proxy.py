"""A TCP proxy before a server's Unix socket that can fall silent: it forwards nothing and closes nothing, like a cut network."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from pathlib import Path


class SilentProxy:
    """Forwards from a free port of 127.0.0.1. What arrives during a cut is forwarded when the cut ends, as by TCP itself."""

    def __init__(self, server: Path) -> None:
        self._server = str(server)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._requests, self._answers = threading.Event(), threading.Event()
        self._sockets: list[socket.socket] = []
        self.heal()
        self._start(self._accept)

    def url(self, url: str) -> str:
        """The address of a database of the server, through this proxy."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{url.partition('?')[0].rpartition('/')[2]}"

    def cut(self, *, only_answers: bool = False) -> None:
        """Forward nothing; with `only_answers` nothing from the server."""
        self._answers.clear()
        if not only_answers:
            self._requests.clear()

    def heal(self) -> None:
        """Forward again."""
        self._requests.set()
        self._answers.set()

    def close(self) -> None:
        """End the proxy and all its connections."""
        for each in (self._listener, *self._sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        self.heal()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                self._sockets += [client, server]
                try:
                    server.connect(self._server)
                except OSError:
                    client.close()
                    continue
                self._start(self._forward, client, server, self._requests)
                self._start(self._forward, server, client, self._answers)

    def _forward(self, source: socket.socket, target: socket.socket, flows: threading.Event) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                flows.wait()
                target.sendall(data)
        flows.wait()
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def _start(self, work: object, *arguments: object) -> None:
        threading.Thread(target=work, args=arguments, daemon=True).start()  # type: ignore[arg-type]
