"""What is submitted for the options of a job and its command: the JSON body of `POST /api/v1/jobs`.

It has the fields of `gpuq.messages.submission.Submission`; those of options that were not given are left out.
"""

from __future__ import annotations

import argparse
import os
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from gpuq.array import check_placeholders
from gpuq.cli import capture, git, header, job_fields, job_ids, piped, project, variables
from gpuq.cli.arguments import Parser
from gpuq.cli.client import sends_notifications
from gpuq.cli.job_options import asks_for_array
from gpuq.cli.misplaced import warn_misplaced
from gpuq.errors import BadInput
from gpuq.messages.environment import in_environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gpuq.cli.snapshot import WorkTreeCopy
    from gpuq.cli.sync import WorkTree

# Programs whose own arguments look like a shell's operators.
_WITH_OPERATORS = frozenset({"find", "expr", "test", "["})
# Options that count only where they are typed: a repository that was given away would send the token and the environment to
# a server of its own, or have its script run here, where `gpuq predict` promises only to read it.
_TYPED_ONLY = {"host": "--host", "dry_run_memory": "--dry-run-memory"}
# Variables with which programs find out what a terminal can show.
_OF_TERMINALS = ("TERM", "COLORTERM")


def parse(parser: Parser, words: list[str]) -> tuple[argparse.Namespace, dict[str, Any]]:
    """(options, submission) of the typed words. Warns about gpuq's options behind the script. Raises BadInput."""
    own, verbatim, command = parser.split(words)
    options, read = options_of(parser, own, command, verbatim)
    body = submission(options, command, verbatim, read)
    warn_of_words(parser, body)
    return options, body


def options_of(
    parser: Parser, own: Sequence[str], command: list[str], verbatim: bool
) -> tuple[argparse.Namespace, Callable[[], str]]:
    """The options of the project, of the head of the script and those that were typed, `own`; a later one goes before an earlier
    one. With them what returns a script from standard input, as often as it is called. Raises BadInput."""
    read = cache(piped.read)
    return parser.parse_args([*_in_files(parser, own, command, verbatim, read), *own]), read


def warn_of_words(parser: Parser, body: dict[str, Any]) -> None:
    """Warn about words of the command that were probably meant for gpuq, or for a shell."""
    warn_misplaced(parser.long_options(), body)
    program, *arguments = body["command"]
    operator = next(filter(capture.OPERATOR.fullmatch, arguments), None)
    if operator is not None and Path(program).name not in _WITH_OPERATORS:
        job_fields.warn(
            f"no shell runs the command, so `{operator}` is an argument of it; a shell would: -- bash -c '…'"
        )


def _in_files(
    parser: Parser, own: Sequence[str], command: list[str], verbatim: bool, read: Callable[[], str]
) -> list[str]:
    def parse(words: list[str]) -> None:
        options = parser.parse_args(words)
        if given := [option for name, option in _TYPED_ONLY.items() if getattr(options, name, None)]:
            raise BadInput(f"`{given[0]}` counts on a command line only; take it out of here.")

    here = capture.current_folder()
    words = project.options_of(here, parse)
    if verbatim or not command:
        return words
    typed = parser.parse_args([*words, *own])
    if command[0] == piped.HERE:
        return words + ([] if typed.pty else header.options_of("stdin", read(), parse))
    script = capture.absolute(_located(command, verbatim, typed.chdir, here)[0], here)
    return words + header.options_of(script.name, header.text_of(script), parse)


def _located(words: list[str], verbatim: bool, chdir: str | None, here: Path) -> list[str]:
    """The words, with a script that is not here but in `--chdir DIR` by its path there, as `make -C` finds its file."""
    if chdir is None or not words or (verbatim and "/" not in words[0]):
        return words
    there = capture.absolute(str(Path(chdir, words[0])), here)
    found = not capture.absolute(words[0], here).exists() and there.is_file()
    return [str(there), *words[1:]] if found else words


@dataclass(frozen=True)
class SubmissionBase:
    """What all submissions with these options have in common, so that a snapshot is taken, and jobs are looked up, once. `wishes`
    are the fields that do not depend on the command."""

    options: argparse.Namespace
    here: Path
    array: dict[str, Any] | None
    wishes: dict[str, Any]
    copy: WorkTreeCopy | None
    sent: WorkTree | None


def prepare(options: argparse.Namespace, array: dict[str, Any] | None = None) -> SubmissionBase:
    """`array` is the field of this name, None for what the options say. Raises BadInput."""
    if array is None and asks_for_array(options):
        from gpuq.cli import sweep

        array = sweep.field(options)
    capture.forget()
    here, wishes = capture.current_folder(), job_fields.fields(options)
    if wishes["notify"] and not sends_notifications(os.environ):
        job_fields.warn("nothing sends notifications now; start `gpuq notify run`")
    return SubmissionBase(options, here, array, wishes, _snapshot(options, here), _work_tree(options, here))


def submission(
    options: argparse.Namespace,
    words: list[str],
    verbatim: bool,
    read: Callable[[], str] = piped.read,
    array: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The body for these options and this one command. Raises BadInput."""
    return body_of(prepare(options, array), words, verbatim, read)


def body_of(
    shared: SubmissionBase, words: list[str], verbatim: bool, read: Callable[[], str] = piped.read
) -> dict[str, Any]:
    """The body for this command. `read` returns a script from standard input. Raises BadInput."""
    options, here, copy, sent = shared.options, shared.here, shared.copy, shared.sent
    words = _located(words, verbatim, options.chdir, here)
    if copy is not None:
        copy.check_words(words, here)
    image, modules = _image(options.image, here), [_module(name) for name in options.module]
    command = _command(shared, words, verbatim, read, in_image=image is not None)
    folder = _working_folder(options.chdir, here)
    if sent is not None:
        sent.check(command, words, here, folder)
    named = [*options.pass_env, *(_OF_TERMINALS if options.pty else ())]
    env = variables.environment(os.environ, named, options.env, listed=sent is None)
    if copy is None:
        commit, dirty = git.state(command.script.parent if command.script else here)
    else:
        env = copy.environment(env, command.words[0], here)
        command, folder, commit, dirty = copy.command(command), copy.entered(folder), copy.commit, copy.changed
    script, name = command.script, job_fields.label("name", options.name) or _default_name(words)
    if options.slurm_env:  # the host fills in the others
        env |= {"SLURM_SUBMIT_DIR": str(here), "SLURM_JOB_ID": "", "SLURM_JOB_NAME": name}
    body: dict[str, Any] = {
        **shared.wishes,
        "command": in_environment(image, modules, command.words),
        "cwd": str(folder),
        "env": env,
        "name": name,
        "stdin": None if options.pty else command.stdin,
        "git_sha": commit,
        "git_dirty": dirty,
        "script": str(copy.original(script) if copy else script) if script else None,
        "script_sha256": capture.work_sha256(command, folder, env),
        "hints": _hints(shared, command, folder, env),
        "snapshot": copy.facts() if copy else None,
        "sync": sent.field() if sent else None,
        "array": shared.array,
    }
    if shared.array is not None:
        check_placeholders([*words, name], shared.array.get("params", {}))
    if options.pty:
        _check_terminal(body, from_stdin=words[0] == piped.HERE and not verbatim)
    _warn_of_variables(shared, command, folder, env)
    return {name: value for name, value in body.items() if value is not None}


def _command(
    shared: SubmissionBase, words: list[str], verbatim: bool, read: Callable[[], str], *, in_image: bool
) -> capture.Command:
    """What is executed. In an image, or where files are sent to, the programs are not those of this machine. Raises BadInput."""
    options, start = shared.options, shared.here if shared.copy is None else shared.copy.entered(shared.here)
    read = _no_script if options.pty else read
    if in_image or shared.sent is not None:
        return capture.in_image(words, verbatim=verbatim, python=options.python, cwd=start, read=read)
    return capture.command(
        words,
        verbatim=verbatim,
        python=options.python,
        environ=os.environ,
        cwd=start,
        read=read,
        modules=bool(options.module),
    )


def _default_name(words: list[str]) -> str:
    """That of the program, as far as --name would take it."""
    program = "stdin" if words[0] == piped.HERE else Path(words[0]).name
    program = f"./{program}" if job_ids.reads_as_ids(program) else program
    return "".join(letter if letter.isprintable() else "?" for letter in program)[: job_fields.LONGEST["name"]]


def _warn_of_variables(shared: SubmissionBase, command: capture.Command, folder: Path, env: Mapping[str, str]) -> None:
    options, array = shared.options, shared.array
    for glob in variables.unmatched(os.environ, options.pass_env):
        job_fields.warn(f"--pass-env `{glob}` matches no variable that is set here")
    swept = array.get("params", {}) if array is not None else {}
    if names := variables.not_passed(command, folder, os.environ, {*env, *swept}):
        job_fields.warn(
            f"the job does not get {', '.join(names[:4])}, which its script reads and which {'is' if len(names) == 1 else 'are'} "
            f"set here; -e {names[0]} passes {'it' if len(names) == 1 else 'one'}"
        )
    if not options.slurm_env and (names := sorted(header.slurms_variables(command) - {*env, *swept})):
        job_fields.warn(f"it reads {', '.join(names[:4])}, which will be empty; --slurm-env gives it Slurm's variables")


def _hints(
    shared: SubmissionBase, command: capture.Command, folder: Path, env: Mapping[str, str]
) -> dict[str, Any] | None:
    """What the script says of the job, and what a dry run of it counts if one was asked for. Raises BadInput."""
    options, array = shared.options, shared.array
    if options.dry_run_memory:
        if array is not None or options.image or options.module or command.stdin is not None or options.pty:
            fix = "Leave --dry-run-memory out, or try one of its jobs with `gpuq predict --dry-run-memory`."
            raise BadInput("--dry-run-memory is for one script of this machine's Python.", fix=fix)
        return {**(capture.hints(command, folder, env) or {}), "traced": _traced(command.words, folder, env)}
    if array is None:
        return capture.hints(command, folder, env)
    from gpuq.cli import sweep

    return sweep.hints(command, folder, array, env)


def _traced(words: Sequence[str], folder: Path, env: Mapping[str, str]) -> dict[str, Any]:
    """What a dry run of these words counts. Raises BadInput."""
    from gpuq.cli.dry_run import dry_run

    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    found = dry_run(words, folder, {**os.environ, **env}, memory // 2)
    for danger in found.unprotected:
        job_fields.warn(f"this kernel could not shut off the dry run: {danger}")
    names = ("framework", "reserved_bytes", "convolution_bytes")
    return {name: getattr(found, name) for name in names}


def _image(name: str | None, here: Path) -> str | None:
    """The image, a file as an absolute path. Raises BadInput."""
    if name is None:
        return None
    if not re.fullmatch(r"[\w./~][^\s\x00]*", name):
        raise BadInput(
            f"--image `{name}` names no image.", fix="Write an address, as docker.io/pytorch/pytorch, or a .sif file."
        )
    if name.endswith(".sif") and "://" not in name:
        file = capture.absolute(name, here)
        if not file.is_file():
            raise BadInput(f"there is no image {file}.", fix="Check the path of the .sif file.")
        return str(file)
    return name


def _module(name: str) -> str:
    if not re.fullmatch(r"\w[\w.+/@-]*", name):
        raise BadInput(
            f"--module `{name}` is no name of a module.", fix="Write one as `module avail` lists it: cuda/12.4"
        )
    return name


def _snapshot(options: argparse.Namespace, here: Path) -> WorkTreeCopy | None:
    """The copy of the work tree that the jobs are to run in. Raises BadInput."""
    if not options.snapshot and options.from_snapshot is None:
        return None
    from gpuq.cli import snapshot

    return snapshot.take(here) if options.from_snapshot is None else snapshot.find(options.from_snapshot)


def _work_tree(options: argparse.Namespace, here: Path) -> WorkTree | None:
    """The files to send for the jobs. Raises BadInput."""
    if not options.sync:
        return None
    if options.snapshot or options.from_snapshot is not None:
        raise BadInput(
            "--sync goes with neither --snapshot nor --from-snapshot: it runs the files as they are now.",
            fix="Leave one of them out.",
        )
    from gpuq.cli import sync

    return sync.take(here)


def _working_folder(named: str | None, here: Path) -> Path:
    folder = capture.absolute(named, here) if named else here
    if not capture.is_text(str(folder)):
        fix = "Rename it, or name another with -C."
        raise BadInput("the name of the folder to run in is not valid UTF-8.", fix=fix)
    try:
        is_folder, enterable = stat.S_ISDIR(folder.stat().st_mode), os.access(folder, os.X_OK)
    except PermissionError:  # a folder above it may not be entered
        is_folder, enterable = True, False
    except OSError:
        is_folder, enterable = False, False
    if not is_folder:
        raise BadInput(f"there is no folder {folder}.", fix="Make it, or name another with --chdir.")
    if not enterable:
        fix = "Name another with --chdir, or ask its owner."
        raise BadInput(f"you may not enter the folder {folder}.", fix=fix)
    return folder


def _check_terminal(body: Mapping[str, Any], *, from_stdin: bool) -> None:
    """Raises BadInput for what cannot have a terminal."""
    if from_stdin:
        raise BadInput("--pty reads from a terminal, and `-` from standard input.", fix="Name a script or a command.")
    if body["array"] is not None:
        raise BadInput("--pty gives one job a terminal, not an array.", fix="Leave out --array, --grid and --sweep.")
    if body.get("hosts") is not None:
        raise BadInput("--pty runs on one host.", fix="Leave out --hosts, or --pty.")


def _no_script() -> str:
    """With --pty an interpreter without a script reads from its terminal."""
    return ""
