"""`sbatch [OPTIONS] SCRIPT [ARGS...]`: submits the script with its `#SBATCH` lines and with Slurm's variables."""

from __future__ import annotations

import re
import shlex

from gpuq.cli import console, header, job_body, job_ids, job_options, piped
from gpuq.cli.client import HttpClient
from gpuq.cli.verbs import follow
from gpuq.cli.verbs.submit import submit_one
from gpuq.cli.verbs.wait import wait_for
from gpuq.errors import BadInput

# Options of `sbatch` with a value, beyond those that `header` knows: their value is no script.
_WITH_VALUE = frozenset(
    {
        "-o",
        "-e",
        "-i",
        "-n",
        "-c",
        "-p",
        "-q",
        "-w",
        "-x",
        "-C",
        "-L",
        "-M",
        "--output",
        "--error",
        "--input",
        "--ntasks",
    }
    | {"--cpus-per-task", "--partition", "--qos", "--nodelist", "--exclude", "--constraint", "--mem", "--mem-per-cpu"}
    | {
        "--mem-per-gpu",
        "--ntasks-per-node",
        "--mail-type",
        "--mail-user",
        "--export",
        "--signal",
        "--comment",
        "--wrap",
    }
    | {"-J", "-t", "-D", "-A", "-G", "-a", "-d", "-b", "-N", "--job-name", "--time", "--chdir", "--account", "--gpus"}
    | {"--gpus-per-node", "--gres", "--array", "--dependency", "--begin", "--nodes", "--reservation", "--licenses"}
)
_SWITCHES = {"--parsable": "parsable", "-W": "wait", "--wait": "wait"}


def run(words: list[str]) -> int:
    """Submit, and print `Submitted batch job ID`. Returns 0, or the job's exit code with --wait. Raises BadInput."""
    own, command = _split(words)
    given = {_SWITCHES[word] for word in own if word in _SWITCHES}
    slurms, wrapped = _without_wrap([word for word in own if word not in _SWITCHES])
    if wrapped is not None and command:
        raise BadInput("--wrap takes the place of the script.", fix="Leave one of them out.")
    verbatim = wrapped is not None
    command = ["/bin/sh", "-c", wrapped] if wrapped is not None else command or [piped.HERE]
    parser = job_options.job_parser("submit", "")
    job_options.add_job_options(parser)
    job_options.add_array_options(parser)
    typed, unknown = header.translated(slurms)
    if unknown:
        console.note(f"sbatch: without effect in gpuq: {shlex.join(unknown)}")
    options, read = job_body.options_of(parser, [*typed, "--slurm-env"], command, verbatim)
    if wrapped is not None and options.name is None:
        options.name = "wrap"
    client = HttpClient.of(options)
    body = job_body.submission(options, command, verbatim, read)
    job_id = submit_one(client, body)
    print(job_id if "parsable" in given else f"Submitted batch job {job_id}", flush=True)
    if "wait" not in given:
        return 0
    ended = wait_for(client, job_ids.named(client, [str(job_id)])) or []
    return max(map(follow.exit_code, ended), default=0)


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    """(options of sbatch, the script with its arguments)."""
    index = 0
    while index < len(words) and words[index].startswith("-") and words[index] != "-":
        index += 2 if words[index] in _WITH_VALUE else 1
    return words[:index], words[index:]


def _without_wrap(words: list[str]) -> tuple[list[str], str | None]:
    kept, wrapped, rest = [], None, iter(words)
    for word in rest:
        if match := re.fullmatch(r"--wrap(?:=(.*))?", word, re.DOTALL):
            wrapped = match[1] if match[1] is not None else next(rest, None)
            if not wrapped:
                raise BadInput("--wrap needs a command.", fix="Write it in quotes: sbatch --wrap='python train.py'")
        else:
            kept.append(word)
    return kept, wrapped
