"""The `gpuq` command: finds the verb, runs its module, and turns errors into a sentence and an exit code.

Only the module of the typed verb is imported, so that `gpuq queue` costs a bare interpreter, argparse and http.client.
Tracebacks are shown only if GPUQ_DEBUG is set.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec

from gpuq.errors import BadInput, GpuqError

# heading -> verb -> (module, what it does), in the order of `gpuq --help`.
GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "jobs": {
        "submit": ("submit", "queue a script or a command"),
        "run": ("run", "submit, follow the output, exit with the job's code"),
        "predict": ("predict", "what gpuq expects of a job, before submitting it"),
        "rerun": ("rerun", "submit a job that ended again, with other options if wanted"),
        "cancel": ("cancel", "end jobs, waiting or running"),
        "hold": ("hold", "keep waiting jobs from starting"),
        "release": ("release", "let held jobs start"),
        "edit": ("edit", "change what jobs ask for: priority, time limit, name …"),
        "wait": ("wait", "wait for jobs to end; exit with their code"),
        "fetch": ("fetch", "bring back the files of a job that was submitted with --sync"),
        "reserve": ("reserve", "devices for yourself from one moment to another; cancel, list"),
        "notify": ("notify", "messages about your jobs: list the targets, test them, send"),
    },
    "what happens, and why": {
        "queue": ("queue", "list waiting and running jobs"),
        "gpus": ("gpus", "devices, and who is on them"),
        "top": ("top", "devices, queue and jobs on one screen that renews; keys act"),
        "watch": ("watch", "how a job gets on, renewed until it ends; exit with its code"),
        "logs": ("logs", "a job's output; -f follows it"),
        "show": ("show", "all facts about one job"),
        "explain": ("explain", "why a job runs where it runs, or why it waits"),
        "graph": ("graph", "which jobs wait for which"),
        "events": ("events", "what happens, as lines of JSON, for scripts"),
        "report": ("report", "hours, waste, energy, sharing by user, project, week"),
        "open": ("open", "open the page in the browser"),
        "url": ("url", "print the page's address with the token"),
    },
    "interactive work": {
        "attach": ("attach", "work in the terminal of a job that was started with --pty"),
        "notebook": ("notebook", "JupyterLab as a job, at an address of this machine"),
        "ssh-config": ("ssh_config", "print what lets ssh and VS Code come into a job with --pty"),
        "proxy": ("proxy", "for ssh: the way into a job, as `gpuq ssh-config` uses it"),
    },
    "forecasts and policies": {
        "model": ("model", "the prediction model: look, train, go back, describe, evaluate"),
        "policy": ("policy", "the scheduling policies: list them, show one"),
        "simulate": ("simulate", "what sharing, or another policy, would have done to your jobs"),
        "characterize": ("characterize", "measure workloads on this machine, alone and in pairs"),
        "profile": ("profile", "where a job's time goes, op by op"),
        "split": ("split", "one OpenCL kernel on several devices: check, predict, run"),
    },
    "running gpuq": {
        "up": ("up", "run gpuq here; -d runs it in the background"),
        "down": ("down", "end the `gpuq up` of this home; jobs go on"),
        "doctor": ("doctor", "check each part and name the fix"),
        "host": ("host", "hosts: add, list, drain, resume, lost, forget, rotate"),
        "pool": ("pool", "GPUs requested from Slurm when jobs wait: add, list, remove"),
        "quota": ("quota", "how much users and projects may have, and what they use"),
        "token": ("token", "tokens for callers over the network: create, list, revoke"),
        "db": ("db", "bring the database up to date: db upgrade"),
        "version": ("version", "the version of this command and of the daemon"),
    },
    "from elsewhere": {
        "login": ("login", "use a gpuq on another machine: keep its address and a token"),
        "logout": ("logout", "forget the token of a gpuq on another machine"),
        "import": ("import_queue", "take over the jobs that wait in task-spooler or gflow"),
        "slurm-commands": ("slurm_commands", "write sbatch, srun, squeue, scancel … into a folder"),
        "mcp": ("mcp", "tools for coding agents: look, predict, submit within a budget"),
        "completion": ("completion", "make bash, zsh or fish complete verbs, options and ids"),
    },
}
VERBS = {verb: found for group in GROUPS.values() for verb, found in group.items()}
ALIASES = {
    "ls": "queue",
    "list": "queue",
    "ps": "queue",
    "status": "queue",
    "why": "explain",
    "kill": "cancel",
    "reservations": "reserve",
    "devices": "gpus",
}
# Verbs that need what `gpuq-client`, the installation without the daemon, does not have.
OF_THE_DAEMON = {"up", "db", "policy", "pool", "profile", "simulate", "characterize", "doctor", "mcp"}
# Options that may precede the verb and are passed to it. True: the option takes a value.
COMMON_OPTIONS = {"--host": True, "--json": False, "--no-color": False}


_FIXES_OF_FILES = dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "Make room there, or write to another place.") | {
    errno.EACCES: "Its mode or owner does not let you; `ls -ld` shows them.",
    errno.EROFS: "Write to another place: that file system is read-only.",
}

EXIT_CODES = """\
0 ok, 1 failure, 2 usage, 3 no such job, 4 daemon unreachable,
5 not permitted or over quota, 6 conflict, 7 can never run; run, wait, logs -f:
the job's own, 124 time limit, 125 not the job's doing."""


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code. Never raises."""
    words = sys.argv[1:] if arguments is None else arguments
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # Names and paths may hold bytes that the terminal's encoding cannot show: show them escaped.
            stream.reconfigure(errors="backslashreplace")
    return guarded(lambda: _run(words))


def guarded(run: Callable[[], int], program: str = "gpuq") -> int:
    """What `run` returns; errors become a sentence of `program` and their exit code. Never raises."""
    _open_closed_streams()
    try:
        code = run()
        sys.stdout.flush()
    except GpuqError as error:
        return _print_error(error, program)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return _output_closed()
    except OSError as error:
        failure = GpuqError(f"{_where(error)}{error.strerror or error}.", fix=_FIXES_OF_FILES.get(error.errno or 0))
        return _print_error(failure, program)
    except Exception as error:  # noqa: BLE001  a user gets a sentence and no traceback
        if os.environ.get("GPUQ_DEBUG"):
            from traceback import print_exception

            print_exception(error)
            return 1
        _write_error(
            f"{program}: something unexpected went wrong ({type(error).__name__}: {error}).\n"
            "  Please report this; set GPUQ_DEBUG=1 for the traceback."
        )
        return 1
    return code


def _open_closed_streams() -> None:
    """Let what is written to a stream that was closed for us (`>&-`), which is None, go nowhere."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: PTH123, SIM115 - pathlib costs start time


def _run(words: list[str]) -> int:
    if "_ARGCOMPLETE" in os.environ:
        from gpuq.cli.completion import complete

        return complete(VERBS, ALIASES, COMMON_OPTIONS)
    index = 0
    while index < len(words) and words[index].startswith("-"):
        index += 2 if COMMON_OPTIONS.get(words[index]) else 1
    if index >= len(words):
        return _without_verb(words)
    leading, verb, rest = words[:index], words[index], words[index + 1 :]
    if verb == "help":
        return _run([*rest[:1], "--help"])
    name = ALIASES.get(verb, verb)
    if name not in VERBS:
        from difflib import get_close_matches

        from gpuq.cli import other_queues

        near = other_queues.verbs(verb) or get_close_matches(verb, [*VERBS, *ALIASES], n=1)
        meant = f" Did you mean {' or '.join(f'`{one}`' for one in near)}?" if near else ""
        raise BadInput(f"there is no verb `{verb}`.{meant}", fix="`gpuq --help` lists the verbs.")
    if name in OF_THE_DAEMON and find_spec("gpuq.settings") is None:
        raise BadInput(
            f"`gpuq {name}` is not in gpuq-client, which only submits to a gpuq elsewhere and watches its jobs.",
            fix="Install gpuq-daemon in its place: pip uninstall gpuq-client, then pip install . in a checkout of gpuq",
        )
    if name in OF_THE_DAEMON:
        from gpuq.home import Home
        from gpuq.services_environment import variables

        os.environ.update({**variables(Home.from_environment()), **os.environ})
    module = import_module(f"gpuq.cli.verbs.{VERBS[name][0]}")
    code: int = module.run([*leading, *rest])
    return code


def _without_verb(leading: list[str]) -> int:
    if "--version" in leading or "-V" in leading:
        return _run(["version", *(word for word in leading if word not in {"--version", "-V"})])
    strange = [word for word in leading if word not in {"-h", "--help"} and word.split("=")[0] not in COMMON_OPTIONS]
    if strange:
        raise BadInput(f"there is no option `{strange[0]}` before the verb.", fix="`gpuq --help` lists the verbs.")
    print(_help())
    return 0


def _help() -> str:
    width = max(map(len, VERBS))
    groups = "\n\n".join(
        "\n".join([f"{heading}:", *(f"  {verb:<{width}} {summary}" for verb, (_, summary) in group.items())])
        for heading, group in GROUPS.items()
    )
    meaning = {name: [alias for alias in ALIASES if ALIASES[alias] == name] for name in ALIASES.values()}
    aliases = ";\n      ".join(f"{', '.join(others)} = {name}" for name, others in meaning.items())
    return f"""\
usage: gpuq [--host URL] [--json] [--no-color] VERB ...

A GPU job queue: two jobs share a GPU only when the numbers allow it.

  gpuq up                           start gpuq on this machine
  gpuq submit train.py --lr 0.1     queue a script
  gpuq queue                        see what waits and runs

{groups}

also: {aliases}

`gpuq VERB --help` shows what a verb takes.
exit codes: {EXIT_CODES}"""


def _print_error(error: GpuqError, program: str) -> int:
    _write_error(f"{program}: {error.message}\n  {error.fix}")
    return error.exit_code


def _where(error: OSError) -> str:
    """What could not be read or written, as the beginning of a sentence. What was printed may be what has no room."""
    if error.filename:
        return f"{error.filename}: "
    try:
        sys.stdout.flush()
    except OSError:
        # Else the interpreter tries again at exit, and reports an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return "standard output: "
    return ""


def _write_error(text: str) -> None:
    from gpuq.format import clean_lines

    try:
        print(clean_lines(text), file=sys.stderr)
    except OSError:
        _output_closed()


def _output_closed() -> int:
    """The reader of our output has ended (`gpuq queue | head`). Without this, the interpreter reports an error at exit."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    return 141
