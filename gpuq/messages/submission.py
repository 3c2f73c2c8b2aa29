"""A submission, as the command sends it and the API checks it. The worker gets the part of it that it runs."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

import msgspec
from msgspec import Meta

from gpuq import array
from gpuq.core.state.job import Sharing
from gpuq.core.state.retry import PATTERN as RETRY
from gpuq.errors import BadInput, Conflict
from gpuq.messages import dependency
from gpuq.messages.launch import SYNCED_FOLDER, Interactive, SubmittedCommand
from gpuq.notification import PATTERN as RULE

# One JSON body stays small enough to read by hand; ARG_MAX on Linux is 2 MiB for arguments and environment together.
MAX_ARGUMENTS = 4096
MAX_TEXT = 131_072
MAX_STDIN = 2**20
# Wide enough for any machine and any plan, and narrow enough for every type and calendar that a number meets later.
MAX_BYTES = 2**60
MAX_DURATION_S = 10 * 366 * 86_400
MAX_MOMENT = 4_102_444_800  # the year 2100, as Unix seconds

# `\Z` and not `$`, which also matches ahead of a last newline. The OpenAPI document, whose expressions are ECMA's, has `$`.
# Neither a database nor a command line can hold a NUL. For long texts the pattern is a look-ahead: tools that read the OpenAPI
# document join `[^\x00]*` with the greatest length, and a repetition of 131,072 takes them seconds to compile.
NO_NUL = r"^[^\x00]*$"
NO_NUL_IN_LONG = r"^(?![^\x00]*\x00)"
ABSOLUTE = r"^/(?![^\x00]*\x00)"
# In an environment the name of a variable ends at the first `=`.
_VARIABLE = r"^(?![^\x00=]*[\x00=])"
_ONE_LINE = r"^[^\x00-\x1f]*\Z"
_TASKS = r"^[0-9,:\- ]+\Z"
FORMS = {
    _ONE_LINE: "one line without control characters",
    NO_NUL: "text without a zero byte",
    NO_NUL_IN_LONG: "text without a zero byte",
    ABSOLUTE: "an absolute path",
    _VARIABLE: "the name of a variable, without `=`",
    _TASKS: "numbers of tasks, as in `0-99` or `0-9,20-30:2`",
    dependency.PATTERN: "what it waits for, as in `ok:12`, `any:12-21` or `start:12`",
    RETRY: "an end and how often at most, as in `oom:2` or `exit=75:3`",
    RULE: "events and targets, as in `end,fail:slack`",
}
"""What to call the texts of these forms in a message to a user."""
# An argument may be empty: `--tag ''`.
Argument = Annotated[str, Meta(max_length=MAX_TEXT, pattern=NO_NUL_IN_LONG)]
VariableName = Annotated[str, Meta(min_length=1, max_length=MAX_TEXT, pattern=_VARIABLE)]


# A name out of a script: printable, no line breaks, nothing that could be taken for markup or code.
Word = Annotated[str, Meta(min_length=1, max_length=100, pattern=r"^[\w.,:/@+ -]+\Z")]


# The signals that may ask a job to save its work. Signals that cannot be caught, or that mean something else, are left out.
Signal = Literal["SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2"]


SettingName = Literal["batch", "image", "sequence", "model", "precision", "optimizer", "epochs"]


class Setting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The value of a setting, and where it was read. The origins are in the order in which they override each other."""

    value: Word
    origin: Literal["argument", "config file", "default", "script"]


class TracedMemory(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a dry run without a GPU counted (`gpuq.cli.dry_run`): bytes that the framework's allocator would hold of a GPU
    after some training steps, and the largest result of a convolution."""

    framework: Word
    reserved_bytes: Annotated[int, Meta(ge=1, le=MAX_BYTES)]
    convolution_bytes: Annotated[int, Meta(ge=0, le=MAX_BYTES)] = 0


class Hints(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Facts that the client read from the script and from configuration files that the command names, without running anything.

    A claim of the submitter: it only chooses which measurements a forecast rests on, and promises nothing.
    """

    framework: Word | None = None
    constructors: Annotated[tuple[Word, ...], Meta(max_length=16)] = ()
    """Models that the script makes, as in `resnet50` or `AutoModel.from_pretrained:bert-base-uncased`."""
    layers: Annotated[dict[Word, Annotated[int, Meta(ge=1, le=100_000)]], Meta(max_length=32)] = {}
    parameters: Annotated[int, Meta(ge=1, le=10**13)] | None = None
    settings: Annotated[
        dict[SettingName, Setting],
        Meta(max_length=7, extra_json_schema={"propertyNames": {"enum": list(get_args(SettingName))}}),
    ] = {}
    """What the command itself does not say by a usual name."""
    values: Annotated[dict[Word, float | Word], Meta(max_length=64)] = {}
    """What the script runs with, by plain name: its options, constants and configuration files, as far as they may matter."""
    traced: TracedMemory | None = None
    given: Annotated[tuple[Word, ...], Meta(max_length=64)] = ()
    """Those of `values` that the command or a configuration file gives, the others are what the script says; and factors that are
    given and of which only zero would be kept."""


class SnapshotPlace(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The copy of a work tree that a job runs in."""

    key: Annotated[str, Meta(pattern=r"^[0-9a-f]{16}\Z")]
    folder: Annotated[str, Meta(min_length=1, max_length=4096, pattern=ABSOLUTE)]
    """Its top."""
    taken_from: Annotated[str, Meta(min_length=1, max_length=4096, pattern=ABSOLUTE)]
    """The top of the work tree that it is a copy of."""


class SyncedTree(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The files of its owner's that a job runs with, which `POST /api/v1/trees` took."""

    tree: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
    folder: Annotated[str, Meta(min_length=1, max_length=4096, pattern=ABSOLUTE)]
    """Their top where they were sent from. What `command` and `cwd` name below it is below the attempt's folder on its host."""


_HostName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]{1,64}\Z")]
# What `--constraint` can ask for, and what hosts' settings can give.
FEATURE = r"[A-Za-z0-9._:-]{1,64}"
_Feature = Annotated[str, Meta(pattern=rf"^{FEATURE}\Z")]


class Constraints(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which devices a job may have: those that meet all of these. One that is empty or null allows every device."""

    types: Annotated[tuple[Annotated[str, Meta(max_length=100, pattern=r"[A-Za-z0-9]")], ...], Meta(max_length=16)] = ()
    """The type has all words of one of these: `A100`, `A100 80GB`. Case does not matter, nor do hyphens and underscores."""
    least_memory: Annotated[int, Meta(gt=0, le=MAX_BYTES)] | None = None
    """Bytes that the device is sold with; what its driver keeps of them counts."""
    hosts: Annotated[tuple[_HostName, ...], Meta(max_length=64)] = ()
    excluded_hosts: Annotated[tuple[_HostName, ...], Meta(max_length=64)] = ()
    devices: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=200, pattern=NO_NUL)], ...], Meta(max_length=64)
    ] = ()
    """Names, as `gpu3` or `node2:gpu3`, or ids; the record has ids."""
    features: Annotated[
        tuple[Annotated[tuple[_Feature, ...], Meta(min_length=1, max_length=16)], ...], Meta(max_length=16)
    ] = ()
    """Groups of features of which one is to be had completely: `[["nvlink", "ib"], ["fast"]]`."""


class ArrayTasks(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What makes a submission an array: one job for each of these task numbers."""

    tasks: Annotated[str, Meta(min_length=1, max_length=MAX_TEXT, pattern=_TASKS)]
    """Their numbers, as in `0-9:3,20`."""
    at_once: Annotated[int, Meta(ge=1, le=array.MOST_TASKS)] | None = None
    """So many of them run at a time, at most; null: any number."""
    params: Annotated[
        dict[
            Annotated[str, Meta(pattern=rf"^{array.PARAMETER}\Z")],
            Annotated[
                tuple[Annotated[str, Meta(max_length=MAX_TEXT, pattern=NO_NUL_IN_LONG)], ...],
                Meta(max_length=array.MOST_TASKS),
            ],
        ],
        Meta(max_length=64),
    ] = {}
    """The values of each parameter, one for each task, in the order of their numbers. They take the place of `{name}` in the
    words of the command and in the name, and are variables of the task's environment."""

    def __post_init__(self) -> None:
        # No schema can say these things, so they are conflicts and not faults of the kind that the document rules out.
        try:
            count = self.count
        except BadInput as error:
            raise Conflict(f"The array makes no sense: {error.message}", fix=error.fix) from error
        for name, values in self.params.items():
            if len(values) != count:
                raise Conflict(
                    f"The array's parameter `{name}` has {len(values)} values for {count} tasks.",
                    fix="Give each task a value of each parameter.",
                )
        if array.TASK in self.params:
            raise Conflict(
                f"No parameter can be called `{array.TASK}`, which is the number of the task.", fix="Rename it."
            )

    @property
    def numbers(self) -> tuple[int, ...]:
        """The task numbers, ascending."""
        return array.numbers(self.tasks)

    @property
    def count(self) -> int:
        """How many tasks."""
        return len(self.numbers)


JobName = Annotated[str, Meta(max_length=200, pattern=_ONE_LINE)]
Priority = Annotated[int, Meta(ge=-1000, le=1000)]
MaxSlowdown = Annotated[float, Meta(ge=1.0, le=5.0)]
Memory = Annotated[int, Meta(gt=0, le=MAX_BYTES)]
TimeLimit = Annotated[float, Meta(gt=0, le=MAX_DURATION_S)]
Moment = Annotated[float, Meta(gt=0, le=MAX_MOMENT)]
NotifyRules = Annotated[tuple[Annotated[str, Meta(max_length=500, pattern=RULE)], ...], Meta(max_length=10)]

USUAL_UMASK = 0o022
"""The umask of a job whose submission names none: as on most systems, and not that of the services, which is 077."""


class Submission(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The body of `POST /api/v1/jobs`. Memory in bytes, time in seconds, slowdown as a ratio (1.15 is 15% slower).

    The record has only what is not as usual. So hosts of the previous release, which refuse fields that they do not have, start
    the job during an upgrade.
    """

    command: Annotated[tuple[Argument, ...], Meta(min_length=1, max_length=MAX_ARGUMENTS)]
    cwd: Annotated[str, Meta(min_length=1, max_length=4096, pattern=ABSOLUTE)]
    env: dict[VariableName, Annotated[str, Meta(max_length=MAX_TEXT, pattern=NO_NUL_IN_LONG)]] = {}
    name: JobName | None = None
    project: Annotated[str, Meta(max_length=200, pattern=NO_NUL)] | None = None
    kind: Annotated[str, Meta(min_length=1, max_length=400, pattern=NO_NUL)] | None = None
    script: Annotated[str, Meta(max_length=4096, pattern=NO_NUL_IN_LONG)] | None = None
    script_sha256: Annotated[str, Meta(min_length=64, max_length=64, pattern=r"^[0-9a-f]+\Z")] | None = None
    git_sha: Annotated[str, Meta(max_length=64, pattern=NO_NUL)] | None = None
    git_dirty: bool | None = None
    hints: Hints | None = None
    stdin: Annotated[str, Meta(max_length=MAX_STDIN, pattern=NO_NUL_IN_LONG)] | None = None
    """The text that the job reads on its standard input, such as the script of `python -`. None: nothing."""
    umask: Annotated[int, Meta(ge=0, le=0o777)] | None = None
    """The file mode bits that the job's new files do not get, as the submitter's umask; None: 022."""
    priority: Priority = 0
    share: Sharing = Sharing.AUTO
    max_slowdown: MaxSlowdown | None = None
    gpu_memory: Memory | None = None
    gpus: Annotated[int, Meta(ge=1, le=64)] = 1
    """Devices, at least."""
    hosts: Annotated[int, Meta(ge=1, le=64)] = 1
    """It runs on so many hosts at the same time, with equally many devices of each. Over several hosts it shares no device."""
    most_gpus: Annotated[int, Meta(ge=1, le=64)] | None = None
    """It runs on any number of devices from `gpus` to this; one below `gpus` adds nothing."""
    time_limit_s: TimeLimit | None = None
    hold: bool = False
    requeue_on_node_fail: bool = False
    deadline_at: Moment | None = None
    """Unix seconds by which it should end. It may nevertheless start and end later."""
    preemptible: bool = False
    """It saves its work on a signal, so it may be stopped for another job and started again later."""
    signal: Signal | None = None
    """The signal that asks it to save its work; None: the host's `checkpoint_signal`. One that is named implies `preemptible`,
    unless `signal_before_s` says that it is for the time limit."""
    signal_before_s: Annotated[float, Meta(gt=0, le=1e6)] | None = None
    """So long before its time limit it gets this signal; null: not at all."""
    blink: bool = False
    """It may be paused for a second now and then to measure a partner that may too, and be measured in turn."""
    notify: NotifyRules | None = None
    """For which events its owner is sent a message, and to which targets, as in `end,fail:slack`; null: as the owner's own file
    says. Addresses and passwords are in that file only."""
    constraints: Constraints | None = None
    """Which devices it may have; null: all."""
    after: Annotated[tuple[Annotated[str, Meta(pattern=dependency.PATTERN)], ...], Meta(max_length=100)] = ()
    """What it waits for of other jobs: `ok:12`, `any:12`, `fail:12` or `start:12`, and for all jobs of a range `ok:12-21`.
    The id of an array means all its tasks, and `ok:12-12` the first.
    `corr:12-21`: each task of this array waits for the success of the corresponding one of these, which are tasks too;
    several ranges have commas between them, and steps as in `corr:12-20:2,25`."""
    begin_at: Moment | None = None
    """Unix seconds before which it does not start."""
    retry: Annotated[tuple[Annotated[str, Meta(pattern=RETRY)], ...], Meta(max_length=20)] = ()
    """After which ends it starts again, and how often at most: `oom:2`, `node:5`, `timeout:20`, `exit=75:3`, `any:1`."""
    singleton: bool = False
    """It waits until all earlier jobs of its user with its name have ended."""
    idle_ok: bool = False
    """It is not stopped because it does not use its devices."""
    no_pause: bool = False
    """It is never paused so that another job runs."""
    lend_cores: Annotated[int, Meta(ge=0, le=4)] = 0
    """So many idle cores of its host it can use besides its devices: a split kernel (`gpuq split run`) looks which it has."""
    interactive: Interactive | None = None
    """How its owner works in it: on its terminal, or in a notebook; null for a batch job. One without a time limit gets the
    site's."""
    snapshot: SnapshotPlace | None = None
    """Where `command` and `cwd` name files of a copy of the work tree; `script` stays the path in the tree itself."""
    sync: SyncedTree | None = None
    """The files that it runs with, where it shares no file system with its host; null: those that are there."""
    array: ArrayTasks | None = None
    """What makes it many jobs; null: it is one."""

    def __post_init__(self) -> None:
        if self.signal is not None and self.signal_before_s is None and not self.preemptible:
            msgspec.structs.force_setattr(self, "preemptible", True)
        if self.umask == USUAL_UMASK:
            msgspec.structs.force_setattr(self, "umask", None)
        if self.constraints == Constraints():
            msgspec.structs.force_setattr(self, "constraints", None)
        if self.array is not None:
            try:
                array.check_placeholders([*self.command, self.name or ""], self.array.params)
            except BadInput as error:
                raise Conflict(f"The array makes no sense: {error.message}", fix=error.fix) from error
        try:
            for text in self.after:
                dependency.parse(text)
        except ValueError as error:
            raise Conflict(f"`after` makes no sense: {error}.", fix="Name the first job of a range first.") from error
        if len({text.partition(":")[0] for text in self.retry}) < len(self.retry):
            raise Conflict("`retry` has two rules for the same end.", fix="Leave one of them out.")

    @property
    def count(self) -> int:
        """How many jobs it is: the number of tasks of an array, else 1."""
        return 1 if self.array is None else self.array.count


def in_work_tree(submission: Submission) -> Submission:
    """The submission as it would be without a snapshot: paths in the copy replaced by those in the work tree."""
    if submission.snapshot is None:
        return submission
    moved = _moved(submission, submission.snapshot.folder, submission.snapshot.taken_from)
    env = {name: value for name, value in submission.env.items() if name != "GPUQ_SUBMIT_DIR"}
    return msgspec.structs.replace(moved, env=env, snapshot=None)


def in_folder(submission: Submission, folder: str) -> Submission:
    """The submission with paths of its synced tree replaced by those in this folder of its host; others as they are."""
    return submission if submission.sync is None else _moved(submission, submission.sync.folder, folder)


def _moved(submission: Submission, top: str, to: str) -> Submission:
    def moved(path: str) -> str:
        return to + path.removeprefix(top) if path == top or path.startswith(f"{top}/") else path

    command = tuple(map(moved, submission.command))
    return msgspec.structs.replace(submission, command=command, cwd=moved(submission.cwd))


def command_of(submission: Submission) -> SubmittedCommand:
    """The part of a submission that is run."""
    return SubmittedCommand(
        command=submission.command,
        cwd=submission.cwd,
        env=submission.env,
        stdin=submission.stdin,
        umask=USUAL_UMASK if submission.umask is None else submission.umask,
        time_limit_s=submission.time_limit_s,
        interactive=submission.interactive,
    )


def command_in_unit(submission: Submission) -> SubmittedCommand:
    """The same where jobs run as their submitters: with the files of `--sync`, in the job's own folder."""
    command = command_of(in_folder(submission, SYNCED_FOLDER))
    return command if submission.sync is None else msgspec.structs.replace(command, tree=submission.sync.tree)
