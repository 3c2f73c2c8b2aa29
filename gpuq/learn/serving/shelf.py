"""The model shelf: versions as folders of JSON with checksums, one of them current.

    models/v0001/{model.json, card.json, card.md, card.html, *.png, manifest.json}
    models/current      the name of the version that serves, or `none`

A version is published completely or not at all: its folder appears by a rename, and so does `current`. A version whose files
do not match its manifest is never used; the one before it is. Nothing is unpickled.
"""

from __future__ import annotations

import hashlib
import logging
import re
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from gpuq.errors import Conflict, Failure
from gpuq.home import write_private
from gpuq.learn.serving.model import Model, from_json, to_json

_VERSION = re.compile(r"^v(\d{4,9})$")
_NONE = "none"
_TEXT = (".md", ".html")
log = logging.getLogger(__name__)


class CorruptModel(Failure):
    """A model version's files are not what was published."""

    fix = "Run `gpuq model train` for a new version, or `gpuq model rollback` for the one before."


@dataclass(frozen=True)
class ServingModel:
    """The model that may serve and its version, both None without one. `problem` says why the current one was passed over."""

    model: Model | None
    version: str | None
    problem: str | None = None


class Shelf:
    """The versions under one folder. Writers must hold the retraining lock; readers need no lock."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def publish(self, model: Model, card: Mapping[str, Any], files: Mapping[str, bytes]) -> str:
        """Write a new version, make it current, and return its name.

        `files` (name -> content) are stored beside the model; `{version}` in Markdown and HTML files is replaced by the name.
        """
        version = f"v{max([self._number(name) for name in self.versions()], default=0) + 1:04}"
        named = msgspec.structs.replace(model, version=version)
        whole = {"model.json": to_json(named), "card.json": _json({"version": version, **card})}
        for name, body in files.items():
            whole[name] = body.replace(b"{version}", version.encode()) if name.endswith(_TEXT) else body
        whole["manifest.json"] = _json({name: hashlib.sha256(body).hexdigest() for name, body in whole.items()})
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Readers ignore this name until the rename; leftovers of a crash are removed by `prune`.
        new = self._folder / f".new-{secrets.token_hex(8)}"
        new.mkdir(mode=0o700)
        for name, body in whole.items():
            write_private(new / name, body)
        new.rename(self._folder / version)
        self.serve(version)
        return version

    def serve(self, version: str | None) -> None:
        """Make this version current; None: no model serves."""
        # Syncs the folder too, and with it the name of a version that was published just before.
        write_private(self._folder / "current", f"{version or _NONE}\n".encode())

    def load(self, version: str) -> Model:
        """That version, checked against its manifest. Raises CorruptModel."""
        folder = self._folder / version
        try:
            manifest = msgspec.json.decode((folder / "manifest.json").read_bytes(), type=dict[str, str])
            for name, digest in manifest.items():
                if hashlib.sha256((folder / Path(name).name).read_bytes()).hexdigest() != digest:
                    raise CorruptModel(f"Model {version}: {name} is not the file that was published.")
            if "model.json" not in manifest:
                raise CorruptModel(f"Model {version}: its manifest names no model.")
            model = from_json((folder / "model.json").read_bytes())
        except (OSError, ValueError) as error:
            raise CorruptModel(f"Model {version} cannot be read: {error}") from error
        return msgspec.structs.replace(model, version=version)

    def load_current(self) -> Model | None:
        """The model that serves; None without one. A corrupt version is skipped and logged."""
        loaded = self.load_serving()
        if loaded.problem is not None:
            log.warning("%s Serving %s instead.", loaded.problem, loaded.version or "no model")
        return loaded.model

    def load_serving(self) -> ServingModel:
        """The current version; if it is corrupt, the newest sound one before it, with the problem."""
        current = self.current()
        if current is None:
            return ServingModel(None, None)
        problem = None
        for version in [current, *self._before(current)]:
            try:
                return ServingModel(self.load(version), version, problem)
            except CorruptModel as error:
                problem = problem or error.message
        return ServingModel(None, None, problem)

    def rollback(self) -> str | None:
        """Make the newest sound version before the current one current, and return it; None: no model serves any more.

        Raises Conflict if no model serves.
        """
        current = self.current()
        if current is None:
            raise Conflict("No model serves, so there is none to roll back.", fix="Run `gpuq model train` for one.")
        for version in self._before(current):
            try:
                self.load(version)
            except CorruptModel:
                continue
            self.serve(version)
            return version
        self.serve(None)
        return None

    def prune(self, keep: int) -> list[str]:
        """Delete all but the newest `keep` versions and the current one, and leftovers of crashes. Returns the deleted
        versions."""
        current = self.current()
        stale = [version for version in self.versions()[: -max(keep, 1)] if version != current]
        for version in stale:
            shutil.rmtree(self._folder / version)
        for left in self._folder.glob(".new-*"):
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        return stale

    def versions(self) -> list[str]:
        """All versions, oldest first."""
        if not self._folder.is_dir():
            return []
        return sorted((p.name for p in self._folder.iterdir() if _VERSION.match(p.name)), key=self._number)

    def current(self) -> str | None:
        """The version that serves; None for none."""
        try:
            name = (self._folder / "current").read_text().strip()
        except (FileNotFoundError, UnicodeDecodeError):
            return None
        return name if _VERSION.match(name) else None

    def status(self) -> dict[str, Any]:
        """What `gpuq model status` shows: the current version, and each version with its card or its problem."""
        loaded = self.load_serving()
        versions: list[dict[str, Any]] = []
        for version in reversed(self.versions()):
            try:
                self.load(version)
                card = msgspec.json.decode((self._folder / version / "card.json").read_bytes(), type=dict[str, Any])
            except (CorruptModel, OSError, msgspec.DecodeError) as error:
                versions.append({"version": version, "problem": str(error), "card": None})
            else:
                versions.append({"version": version, "problem": None, "card": card})
        return {
            "current": self.current(),
            "serving": loaded.version,
            "problem": loaded.problem,
            "versions": versions,
        }

    def card(self, version: str) -> dict[str, Any] | None:
        """A version's card; None if it cannot be read."""
        try:
            return msgspec.json.decode((self._folder / version / "card.json").read_bytes(), type=dict[str, Any])
        except (OSError, msgspec.DecodeError):
            return None

    def _before(self, version: str) -> list[str]:
        return [name for name in reversed(self.versions()) if self._number(name) < self._number(version)]

    @staticmethod
    def _number(version: str) -> int:
        return int(version[1:])


def _json(value: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=1)
