"""The Slurm job that gpuq itself runs in, as its home tells the commands where it is."""

from __future__ import annotations

import msgspec

from gpuq.home import Home, write_private


class MainJob(msgspec.Struct, frozen=True, kw_only=True):
    """`slurm.json`. `node` and `url` (TLS, by the authority in the home) are None while the job waits, at first or again."""

    slurm_job: int
    node: str | None = None
    url: str | None = None


def read(home: Home) -> MainJob | None:
    """The job that gpuq was started in; None where it was started on a host, and where the file cannot be read."""
    try:
        return msgspec.json.decode(home.main_job_file.read_bytes(), type=MainJob)
    except (OSError, msgspec.MsgspecError):
        return None


def save(home: Home, job: MainJob) -> None:
    """Replace what the home says; only its owner can read it."""
    write_private(home.main_job_file, msgspec.json.encode(job))
