"""gpuq's record of a run, taken out of its database: without the paths, names and environment of the machine it ran on."""

from __future__ import annotations

from pathlib import Path

import msgspec

from gpuq.adapters.store.contract import Store
from gpuq.adapters.store.row_types import AttemptRow, JobRow
from gpuq.lab.sim.replay import Recording
from gpuq.messages.submission import Submission
from gpuq.settings import Settings

HOST = "host"


def take(store: Store, settings: Settings, first: int) -> Recording:
    """All that ended; jobs from `first` on are the judged ones."""
    ended = store.finished_attempts()
    recording = Recording(
        tuple(store.devices()), settings.admission, settings.scheduling.policy, first,
        tuple(_nameless(job) for job, _ in ended),
        tuple(_pathless(attempt) for _, attempt in ended),
    )  # fmt: skip
    named = msgspec.json.encode(recording).replace(settings.worker.host.encode(), HOST.encode())
    return msgspec.json.decode(named, type=Recording)


def _nameless(job: JobRow) -> JobRow:
    asked = job.record.submission
    words = tuple(Path(word).name if word.startswith("/") else word for word in asked.command)
    kept = Submission(
        command=words, cwd="/", kind=asked.kind, share=asked.share, max_slowdown=asked.max_slowdown, script=None
    )
    record = msgspec.structs.replace(job.record, submission=kept, owner="ada", uid=None, features={})
    return msgspec.structs.replace(job, record=record)


def _pathless(attempt: AttemptRow) -> AttemptRow:
    return msgspec.structs.replace(attempt, log_path=None, features={}, launch={}, boot_id="boot")
