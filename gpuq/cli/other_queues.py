"""What people know from Slurm and other queues, and what it is here: for the hints on a wrong verb or option."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import join

from gpuq.errors import BadInput

# What to type here -> the words for it elsewhere.
_VERBS = {
    "submit": "add sbatch qsub enqueue",
    "run": "srun",
    "run --pty bash": "salloc shell",
    "cancel": "delete del rm remove stop abort terminate scancel qdel",
    "hold": "pause suspend qhold",
    "release": "resume unhold unpause qrls",
    "rerun": "requeue resubmit retry repeat restart",
    "edit": "update modify alter change scontrol qalter",
    "logs": "log tail cat output stdout",
    "show": "info inspect describe details",
    "queue": "jobs squeue qstat",
    "queue --all": "history sacct",
    "gpus": "sinfo nvidia-smi",
    "host list": "nodes hosts workers",
    "up": "start serve daemon",
    "down": "stop quit exit shutdown",
}
_KEPT = "gpuq keeps the output, and `gpuq logs ID` shows it"
_NO_EFFECT = "without effect here; leave it out"
# Options of `sbatch` that `gpuq.cli.header` does not translate.
_OPTIONS = {
    "--wrap": "write the command after `--`, as in -- bash -c 'COMMAND'",
    **dict.fromkeys(("-o", "--output", "--error", "--open-mode"), _KEPT),
    **dict.fromkeys(("--mail-type", "--mail-user"), "write `--notify end,fail:NAME`; `gpuq notify --help` says more"),
    **dict.fromkeys(("--mem", "--mem-per-cpu", "--mem-per-gpu", "-c", "--cpus-per-task", "--cpus-per-gpu"), _NO_EFFECT),
    **dict.fromkeys(("--partition", "-q", "--qos", "--reservation", "--licenses", "--comment"), _NO_EFFECT),
}
_ARRAYS = ("--array", "-a", "--grid", "--sweep")
_OF_VERBS = {
    **dict.fromkeys((("run", name) for name in _ARRAYS), "`gpuq submit --wait`, which takes arrays"),
    **dict.fromkeys((("predict", name) for name in _ARRAYS), "`gpuq submit --dry-run`, which takes arrays"),
    ("logs", "--tail"): "`-n N`",
    **dict.fromkeys((("queue", name) for name in ("--watch", "-w", "-i", "-f")), "`gpuq top`"),
    **dict.fromkeys((("queue", name) for name in ("-t", "--states")), "`--state STATE`"),
    ("queue", "-j"): "`gpuq queue ID`",
    ("queue", "--me"): "`--user me`, the default",
}


def verbs(word: str) -> list[str]:
    """What to type for a verb of another program."""
    return [here for here, words in _VERBS.items() if word in words.split()]


def option(verb: str, name: str) -> str | None:
    """What to type for an option that `gpuq VERB` has under another name."""
    return _OF_VERBS.get((verb, name))


def of_sbatch(words: Sequence[str]) -> str | None:
    """What the first of these words, an option of `sbatch`, is here, as a sentence; None if sbatch has no such option. The next
    word may be its value."""
    from gpuq.cli.header import translated

    name, refused = words[0].partition("=")[0], None
    if name in _OPTIONS:
        return f"Slurm's `{name}`: {_OPTIONS[name]}."
    for typed in (words[:1], words[:2]):
        try:
            found, unknown = translated([*typed])
        except BadInput as error:
            refused = error.message
            continue
        if not unknown:
            return f"Slurm's `{join(typed)}` {f'is `{join(found)}` here' if found else 'needs no option here'}."
    return refused
