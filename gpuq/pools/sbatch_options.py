"""Options of sbatch that a user gives: those with which gpuq would not get one Slurm job, and what they say of GPUs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from gpuq.errors import BadInput

# What sbatch would do instead of submitting one job and printing its number.
_NOT_ONE_JOB = {
    "--array": "makes many Slurm jobs of one; how many pilots there are is `--max`",
    "--wait": "keeps `sbatch` from answering until the Slurm job has ended",
    "--test-only": "submits nothing",
    "--quiet": "keeps `sbatch` from printing the number of its Slurm job",
    "--wrap": "runs its own command in place of gpuq",
    "--chdir": "moves the Slurm job out of its folder, by which gpuq finds it",
    "--requeue": "starts a pilot again that has ended; gpuq requests a new one",
    "--clusters": "holds for sbatch alone, and gpuq would not find the Slurm job; set SLURM_CLUSTERS where it runs instead",
}
_LETTERS = {
    "-a": "--array",
    "-D": "--chdir",
    "-W": "--wait",
    "-Q": "--quiet",
    "-M": "--clusters",
    "-N": "--nodes",
    "-G": "--gpus",
}
_OF_GPUS = ("--gres", "--gpus", "--gpus-per-node", "--gpus-per-task", "--gpus-per-socket")
# Options whose value in the next word is any text, also one that looks like an option.
_OF_TEXT = ("--comment", "--extra", "--job-name", "--wckey", "-J")
# Two letters and the dashes: sbatch takes the beginning of an option for all of it.
_SHORTEST = 4


def check(options: Sequence[str], allowed: Collection[str] = ()) -> None:
    """Raises BadInput for options with which sbatch would not make one Slurm job that gpuq finds, but for those `allowed`."""
    if ":" in options:
        raise BadInput(
            "`:` behind `--` makes several Slurm jobs of one.", fix="Leave it out; a home may have several pools."
        )
    for name, value in _named(options):
        for option, what in _NOT_ONE_JOB.items():
            if option.startswith(name) and len(name) >= _SHORTEST and option not in allowed:
                raise BadInput(f"`{option}` behind `--` {what}.", fix="Leave it out.")
        if name == "--nodes" and value not in {"1", "1-1"}:
            raise BadInput(
                "A Slurm job of gpuq has one node.", fix="Leave `--nodes` out; `--max` is how many pilots there may be."
            )


def speak_of_gpus(options: Sequence[str]) -> bool:
    """Whether they determine how many GPUs a pilot has, or of which type."""
    return any(name in _OF_GPUS for name, _ in _named(options))


def takes_whole_node(options: Sequence[str]) -> bool:
    """Whether a pilot has all GPUs of its node, also where Slurm does not count them."""
    return any(name == "--exclusive" and value in {"", "exclusive"} for name, value in _named(options))


def _named(options: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each option by its long name, where there is one here, with its value as far as it is known."""
    for number, word in enumerate(options):
        if number and options[number - 1] in _OF_TEXT:
            continue
        following = options[number + 1] if number + 1 < len(options) else ""
        name, equals, value = word.partition("=")
        if word.startswith("--"):
            # A value in the next word looks like another argument.
            yield name, value if equals or following.startswith("-") else following
        elif word[:2] in _LETTERS:
            yield _LETTERS[word[:2]], word[2:] or following
