"""Every error that reaches a user, each with its fix.

    GpuqError
    ├── BadInput            exit 2    the request makes no sense as written
    │   └── BadSettings               the settings file or an environment variable is wrong
    ├── NotFound            exit 3    no such job, device or model
    ├── Unreachable         exit 4    the daemon, Redis or the database does not answer
    ├── NotPermitted        exit 5    the caller may not do this
    │   └── OverQuota                 a quota does not let more jobs in
    ├── Conflict            exit 6    the job is past the point where this could be done
    ├── NeverFits           exit 7    no known device could ever run this job
    └── Failure             exit 1    gpuq itself could not do its part
        └── SchemaMismatch            the database is older or newer than this gpuq

The command, the API and the log use the same classes: `message` is a sentence with the values that matter, `fix` says what to do
next. An error never contains secrets. A class without a message uses its docstring.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` costs every start of the command some milliseconds
    from typing import ClassVar


class GpuqError(Exception):
    """Something went wrong inside gpuq."""

    exit_code: ClassVar[int] = 1
    http_status: ClassVar[int] = 500
    fix: str = "Run `gpuq doctor`; it checks each part and names the fix."

    def __init__(self, message: str | None = None, *, fix: str | None = None) -> None:
        super().__init__(message or (self.__doc__ or "").strip().splitlines()[0])
        if fix is not None:
            self.fix = fix

    @property
    def message(self) -> str:
        """The error as one sentence with the values that matter."""
        return str(self.args[0])


class BadInput(GpuqError):
    """The request makes no sense as written."""

    exit_code = 2
    http_status = 422
    fix = "Correct the value and run the command again; `gpuq VERB --help` shows what it takes."


class BadSettings(BadInput):
    """The settings are wrong."""

    fix = "Correct or remove the named setting; docs/settings.md lists them all."


class NotFound(GpuqError):
    """There is no such thing."""

    exit_code = 3
    http_status = 404
    fix = "`gpuq queue -a -n 500` lists the newest 500 jobs."


class Unreachable(GpuqError):
    """The daemon does not answer."""

    exit_code = 4
    http_status = 503
    fix = "Start it with `gpuq up`, or set GPUQ_HOME to the home of one that is running."
    sign: str = "unreachable"
    """The word that /readyz has for it."""

    def __init__(self, message: str | None = None, *, fix: str | None = None, sign: str | None = None) -> None:
        super().__init__(message, fix=fix)
        if sign is not None:
            self.sign = sign


class NotPermitted(GpuqError):
    """The caller may not do this."""

    exit_code = 5
    http_status = 403
    fix = "Use the Unix socket as the user who runs gpuq, or send the token from $GPUQ_HOME/token."


class OverQuota(NotPermitted):
    """A quota does not let this job in."""

    fix = "`gpuq quota` shows the limits and their use."


class Conflict(GpuqError):
    """The job is past the point where this could be done."""

    exit_code = 6
    http_status = 409
    fix = "`gpuq show ID` tells the job's state."


class NeverFits(GpuqError):
    """No known device could ever run this job."""

    exit_code = 7
    http_status = 409
    fix = "Ask for less, or add a larger device; `gpuq gpus` shows what there is."


class Failure(GpuqError):
    """gpuq itself could not do its part."""


class SchemaMismatch(Failure):
    """The database does not have the schema this gpuq works with."""

    fix = "Run `gpuq db upgrade` if the database is older; install the newer gpuq if it is newer."
