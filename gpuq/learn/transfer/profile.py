"""An op profile: where the time of some training steps went, op by op.

How many steps the profiled window held is often unknown, so users of a profile work with shares of the window.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from gpuq.errors import BadInput

Microseconds = Annotated[float, Meta(ge=0, le=1e15)]
IDLE = "IDLE"


class OpProfile(msgspec.Struct, frozen=True, kw_only=True):
    """Microseconds per op over the profiled window, on the device and on the host. Unknown is None.

    `kind`, `script_sha256` and `batch_log2` identify the job, `device_type` the device, `step_s` the time of one step there.
    """

    format: Annotated[int, Meta(ge=1, le=1)] = 1
    framework: str | None = None
    device_type: str | None = None
    kind: str | None = None
    script_sha256: str | None = None
    batch_log2: float | None = None
    steps: Annotated[int, Meta(gt=0)] | None = None
    step_s: Annotated[float, Meta(gt=0)] | None = None
    device_us: dict[str, Microseconds] = {}
    device_idle_us: Microseconds | None = None
    host_us: dict[str, Microseconds] = {}
    host_idle_us: Microseconds | None = None

    @property
    def ops_us(self) -> Mapping[str, float]:
        """The ops of the side that did the work: of the device, or of the host where no device was profiled."""
        return self.device_us or self.host_us

    @property
    def idle_us(self) -> float:
        """Idle time of the same side; 0 where it was not recorded."""
        return (self.device_idle_us if self.device_us else self.host_idle_us) or 0.0

    def shares(self) -> dict[str, float]:
        """Op -> its share of the window, idle time included as `IDLE`; they add up to 1. Empty without any time."""
        total = sum(self.ops_us.values()) + self.idle_us
        if total <= 0:
            return {}
        return {name: us / total for name, us in {**self.ops_us, IDLE: self.idle_us}.items()}


def to_json(profile: OpProfile) -> bytes:
    """Readable JSON; the same profile gives the same bytes."""
    return msgspec.json.format(msgspec.json.encode(profile, order="deterministic"), indent=1)


def from_json(text: bytes, *, name: str = "the profile") -> OpProfile:
    """The profile that `to_json` wrote. Raises BadInput."""
    try:
        return msgspec.json.decode(text, type=OpProfile)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(f"{name} is no op profile: {error}.", fix="`gpuq profile --out FILE` writes one.") from error


def read_folder(folder: Path) -> list[OpProfile]:
    """The readable profiles of a folder, by file name; unreadable ones are skipped. Empty without a folder."""
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            found.append(from_json(path.read_bytes(), name=str(path)))
        except (BadInput, OSError):
            continue
    return found
