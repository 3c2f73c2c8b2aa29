"""What a caller is shown of the jobs of others: all of them, or a summary without what they run, where, and what they print.

`others_jobs` under [api] decides. Operators and admins are shown everything.
"""

from __future__ import annotations

from typing import TypeVar

from aiohttp import web
from msgspec.structs import replace

from gpuq.api.context import context_of
from gpuq.api.contract.schema_jobs import ArrayLine, JobLine, JobView, VerdictView
from gpuq.api.identity import Role, caller_of
from gpuq.core.state.job import ENDED
from gpuq.errors import NotPermitted
from gpuq.messages.outcome import AttemptOutcome
from gpuq.messages.verdicts import sentence

_OF_ITS_FILES = ("cwd", "script", "script_sha256", "git_sha", "git_dirty", "snapshot_folder", "snapshot_taken_from")

Line = TypeVar("Line", bound=JobLine)


def sees_all(request: web.Request) -> bool:
    """Whether the caller is shown all jobs of all users."""
    return caller_of(request).role >= Role.OPERATOR or context_of(request).settings.api.others_jobs == "full"


def sees(request: web.Request, owner: str) -> bool:
    """Whether the caller is shown all of this owner's jobs."""
    return sees_all(request) or caller_of(request).manages(owner)


def check_sees(request: web.Request, job: int, owner: str) -> None:
    """Raises NotPermitted unless the caller is shown all of this owner's jobs."""
    if not sees(request, owner):
        raise NotPermitted(
            f"Job {job} belongs to {owner}; you may see only that it is there.",
            fix="Ask its owner, or an operator; `others_jobs` under [api] decides this.",
        )


def check_manages(request: web.Request, job: int, owner: str) -> None:
    """Raises NotPermitted unless the caller may change this owner's jobs."""
    caller = caller_of(request)
    if not caller.manages(owner):
        raise NotPermitted(
            f"Job {job} belongs to {owner}; {caller.user} may not change it.",
            fix="Ask its owner, or an operator: `operators` under [api] names them.",
        )


def array(request: web.Request, line: ArrayLine) -> ArrayLine:
    """The array as the caller is shown it."""
    if sees(request, line.owner):
        return line
    return replace(line, name=None, project=None, command=[], params=None, verdict=_verdict(line.verdict))


def job(request: web.Request, line: Line) -> Line:
    """The job as the caller is shown it. `command` is empty in a summary."""
    if sees(request, line.owner):
        return line
    # What a job printed at its end is in its reason; a waiting job's is a rule.
    reason = None if line.state in ENDED else line.reason
    line = replace(
        line,
        name=None,
        project=None,
        kind=None,
        command=[],
        log_path=None,
        notify=None,
        snapshot=None,
        params=None,
        reason=reason,
        verdict=_verdict(line.verdict),
        actual=_outcome(line.actual),
    )
    if isinstance(line, JobView):
        attempts = [
            replace(one, log_path=None, reason=None, verdict=_verdict(one.verdict), actual=_outcome(one.actual))
            for one in line.attempts
        ]
        nothing = dict.fromkeys(_OF_ITS_FILES)
        line = replace(line, **nothing, environment=[], attempts=attempts)
    return line


# Kinds name scripts, and those of partners as well, who may be yet other users'.


def _verdict(view: VerdictView | None) -> VerdictView | None:
    if view is None:
        return None
    numbers = {name: value for name, value in view.numbers.items() if name != "beside"}
    return replace(view, numbers=numbers, sentence=sentence(view.rule, numbers, view.device_name))


def _outcome(actual: AttemptOutcome) -> AttemptOutcome:
    return replace(actual, partner_kinds=(), slowdowns=())
