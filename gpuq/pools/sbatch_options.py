"""Options of sbatch that a user gives for pilots: those with which no pilot would come about, and what they say of GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuq.errors import BadInput

# What sbatch would do instead of submitting one job and printing its number.
_NO_PILOT = {
    "--array": "makes many Slurm jobs of each pilot; how many pilots there are is `--max`",
    "--wait": "keeps `sbatch` from answering until the pilot has ended",
    "--test-only": "submits nothing",
    "--wrap": "runs its own command in place of gpuq",
    "--chdir": "moves a pilot out of its folder, by which gpuq finds it",
    "--requeue": "starts a pilot again that has ended; gpuq requests a new one",
    "--clusters": "holds for sbatch alone, and gpuq would not find its pilots; set SLURM_CLUSTERS where it runs instead",
}
_LETTERS = {"-a": "--array", "-D": "--chdir", "-W": "--wait", "-M": "--clusters", "-N": "--nodes", "-G": "--gpus"}
_OF_GPUS = ("--gres", "--gpus", "--gpus-per-node", "--gpus-per-task", "--gpus-per-socket")
# Two letters and the dashes: sbatch takes the beginning of an option for all of it.
_SHORTEST = 4


def check(options: Sequence[str]) -> None:
    """Raises BadInput for options with which sbatch would not make one Slurm job of a pilot."""
    for name, value in _named(options):
        for option, what in _NO_PILOT.items():
            if option.startswith(name) and len(name) >= _SHORTEST:
                raise BadInput(f"`{option}` behind `--` {what}.", fix="Leave it out.")
        if name == "--nodes" and value not in {"1", "1-1"}:
            raise BadInput("A pilot has one node.", fix="Leave `--nodes` out; `--max` is how many pilots there may be.")


def speak_of_gpus(options: Sequence[str]) -> bool:
    """Whether they determine how many GPUs a pilot has, or of which type."""
    return any(name in _OF_GPUS for name, _ in _named(options))


def takes_whole_node(options: Sequence[str]) -> bool:
    """Whether a pilot has all GPUs of its node, also where Slurm does not count them."""
    return any(name == "--exclusive" and value in {"", "exclusive"} for name, value in _named(options))


def _named(options: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each option by its long name, where there is one here, with its value as far as it is known."""
    for number, word in enumerate(options):
        following = options[number + 1] if number + 1 < len(options) else ""
        name, equals, value = word.partition("=")
        if word.startswith("--"):
            # A value in the next word looks like another argument.
            yield name, value if equals or following.startswith("-") else following
        elif word[:2] in _LETTERS:
            yield _LETTERS[word[:2]], word[2:] or following
