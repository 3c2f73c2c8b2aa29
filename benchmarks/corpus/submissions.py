"""What `gpuq submit` would hand in for a setting of a script of the corpus."""

from __future__ import annotations

from pathlib import Path

import msgspec

from benchmarks.corpus.settings import Setting
from gpuq.cli import capture
from gpuq.messages.submission import Submission


def submission(name: str, setting: Setting, here: Path, python: str) -> Submission:
    """The submission of `gpuq submit -e … NAME.py WORDS`, typed in `here`."""
    script = here / f"{name}.py"
    command = capture.Command((python, str(script), *setting.words.split()), script)
    env = dict(setting.env)
    body = {
        "command": command.words,
        "cwd": str(here),
        "env": env,
        "script": str(script),
        "script_sha256": capture.work_sha256(command, here),
        "hints": capture.hints(command, here),
    }
    return msgspec.convert({key: value for key, value in body.items() if value is not None}, Submission)
