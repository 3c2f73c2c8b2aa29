"""What a caller is shown of the jobs of others: all of them, or a summary without what they run, where, and what they print.

`others_jobs` under [api] decides. Operators and admins are shown everything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from aiohttp import web
from msgspec.structs import replace

from gpuq.api.context import context_of
from gpuq.api.contract.schema_jobs import ArrayLine, JobLine, JobView, VerdictView
from gpuq.api.identity import Role, caller_of
from gpuq.core.state.job import ENDED
from gpuq.errors import NotPermitted
from gpuq.learn.features.kind import of_owner
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
    if sees_all(request):
        return line
    if sees(request, line.owner):
        return replace(line, verdict=_verdict(line.verdict, kinds_shown(request)))
    return replace(line, name=None, project=None, command=[], params=None, verdict=_verdict(line.verdict, _none))


def job(request: web.Request, line: Line) -> Line:
    """The job as the caller is shown it. `command` is empty in a summary."""
    if sees_all(request):
        return line
    if sees(request, line.owner):
        return _with_kinds(line, kinds_shown(request, line.kind))
    # What a job printed at its end is in its reason; a waiting job's is a rule.
    reason = None if line.state in ENDED else line.reason
    line = replace(
        _with_kinds(line, _none),
        name=None,
        project=None,
        kind=None,
        command=[],
        log_path=None,
        notify=None,
        snapshot=None,
        params=None,
        reason=reason,
    )
    if isinstance(line, JobView):
        attempts = [replace(one, log_path=None, reason=None) for one in line.attempts]
        nothing = dict.fromkeys(_OF_ITS_FILES)
        line = replace(line, **nothing, environment=[], attempts=attempts)
    return line


# Kinds name scripts and options. So those of partners, who may be other users', are not shown beside a job of the caller either.

Shown = Callable[[str], bool]


def kinds_shown(request: web.Request, kind: str | None = None) -> Shown:
    """Whether the caller is shown a kind beside a job of this `kind`: the caller's own, and those of the job's project. Ids of
    jobs, which take its place in some verdicts, are shown to all."""
    if sees_all(request):
        return lambda _: True
    project, colon, _ = (kind or "").partition(":")
    # A kind that was named has no colon, or begins with one, and belongs to no project.
    shown = (of_owner(caller_of(request).user), *([project + colon] if project and colon else []))
    return lambda other: other == kind or other.startswith(shown) or other.replace(" ", "").isdecimal()


def verdict(request: web.Request, view: VerdictView, kind: str) -> VerdictView:
    """A verdict on a job of the caller, of this kind, as the caller is shown it."""
    return _verdict(view, kinds_shown(request, kind)) or view


def journal_body(request: web.Request, body: Any, kind: str | None) -> Any:
    """What the journal has of a job of the caller, of this kind, without those of others that it was compared with."""
    return body if sees_all(request) else _without_kinds(body, kinds_shown(request, kind))


def _without_kinds(value: Any, shown: Shown) -> Any:
    match value:
        case dict():
            return {name: _without_kinds(inner, shown) for name, inner in value.items()}
        case list() | tuple():
            return [_without_kinds(one, shown) for one in value if _names_only(one, shown)]
    return value


def _names_only(value: Any, shown: Shown) -> bool:
    """Whether this, one number of a verdict or the cost of one pair, names no kind that is not shown."""
    match value:
        case ["beside", str(kind)] | {"beside": str(kind)}:
            return shown(kind)
    return True


def _none(_: str) -> bool:
    return False


def _with_kinds(line: Line, shown: Shown) -> Line:
    """The job, of whose partners only the kinds are named that are `shown`."""
    line = replace(line, verdict=_verdict(line.verdict, shown), actual=_outcome(line.actual, shown))
    if isinstance(line, JobView):
        attempts = [
            replace(one, verdict=_verdict(one.verdict, shown), actual=_outcome(one.actual, shown))
            for one in line.attempts
        ]
        line = replace(line, attempts=attempts)
    return line


def _verdict(view: VerdictView | None, shown: Shown) -> VerdictView | None:
    if view is None or "beside" not in view.numbers or shown(str(view.numbers["beside"])):
        return view
    numbers = {name: value for name, value in view.numbers.items() if name != "beside"}
    return replace(view, numbers=numbers, sentence=sentence(view.rule, numbers, view.device_name))


def _outcome(actual: AttemptOutcome, shown: Shown) -> AttemptOutcome:
    kinds = tuple(filter(shown, actual.partner_kinds))
    return replace(actual, partner_kinds=kinds, slowdowns=tuple(one for one in actual.slowdowns if shown(one.kind)))
