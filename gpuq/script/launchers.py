"""What is known of launchers, which start another program: their names, and what their options say.

`program` finds what they start. Wrappers (`timeout`, `srun`, `conda run`, profilers) say nothing of the work. Those that start a
training say how it is spread over devices, which decides what each of these has to hold.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from gpuq.script.options import pairs

# fmt: off
LAUNCHERS = frozenset({
    "env", "nice", "ionice", "chrt", "taskset", "numactl", "nohup", "setsid", "stdbuf", "unbuffer", "timeout", "time", "flock",
    "sudo", "doas", "runuser", "gosu", "tini", "dumb-init", "xvfb-run", "dbus-run-session", "systemd-run", "systemd-inhibit",
    "cgexec", "exec", "command", "script", "proxychains", "proxychains4", "caffeinate", "srun", "mpirun", "mpiexec",
    "mpiexec.hydra", "orterun", "prun", "jsrun", "aprun", "ibrun", "horovodrun", "torchrun", "accelerate", "deepspeed",
    "fabric", "composer", "colossalai", "torchx", "uv", "uvx", "poetry", "pdm", "hatch", "pipenv", "pixi", "rye", "conda",
    "mamba", "micromamba", "pyenv", "mise", "direnv", "dotenv", "apptainer", "singularity", "docker", "podman", "nerdctl",
    "enroot", "shifter", "ch-run", "nsys", "ncu", "nvprof", "rocprof", "py-spy", "scalene", "viztracer", "kernprof", "coverage",
    "memray", "fil-profile", "pyinstrument", "mprof", "strace", "ltrace", "perf", "valgrind", "gdb", "cuda-gdb",
    "compute-sanitizer", "catchsegv", "cuda-memcheck", "ddtrace-run", "opentelemetry-instrument", "debugpy",
    "firejail", "bwrap", "ray",
})
LAUNCHING_MODULES = frozenset({
    "torch.distributed.run", "torch.distributed.launch", "torch.utils.bottleneck", "accelerate.commands.launch", "accelerate",
    "deepspeed", "deepspeed.launcher.runner", "horovod.runner", "mpi4py", "mpi4py.futures", "IPython", "cProfile", "profile",
    "pdb", "ipdb", "debugpy", "trace", "coverage", "scalene", "viztracer", "memray", "kernprof", "memory_profiler",
    "line_profiler", "pyinstrument", "runpy", "faulthandler", "colossalai.cli",
})
# Launchers whose own `-m` or `--module` names a module of Python.
TAKE_MODULES = frozenset({
    "torchrun", "accelerate", "deepspeed", "coverage", "uv", "kernprof", "scalene", "viztracer", "memray", "pyinstrument",
})
# Words between a launcher and the program that it runs: `uv run`, `accelerate launch`, `docker exec`.
SUBCOMMANDS = frozenset({"run", "exec", "launch", "record", "stat", "profile", "job", "submit"})
# fmt: on
# Options of launchers that give the folder in which the program runs.
TO_FOLDER = ("--chdir", "--cwd", "--cd", "--directory", "--working-dir", "--working-directory", "--workdir")
ALSO_TO_FOLDER: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("env", "poetry", "mise"), ("-C",)),
    **dict.fromkeys(("sudo", "srun"), ("-D", "--container-workdir")),
    "jsrun": ("-h",),
    **dict.fromkeys(("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prun"), ("-wdir", "--wdir", "-wd", "--wd")),
}
# These do what files of the folder say, by default the named ones: the same words mean other work in another folder.
BY_FOLDER: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("make", "gmake"), ("GNUmakefile", "makefile", "Makefile")),
    "cmake": ("CMakeLists.txt", "CMakePresets.json"),
    "ninja": ("build.ninja",),
    "just": ("justfile", "Justfile", ".justfile"),
    "task": ("Taskfile.yml", "Taskfile.yaml"),
    **dict.fromkeys(("invoke", "inv"), ("tasks.py",)),
    "nox": ("noxfile.py",),
    "tox": ("tox.ini", "pyproject.toml"),
    "doit": ("dodo.py",),
    "rake": ("Rakefile",),
    "snakemake": (
        *("Snakefile", "snakefile", "workflow/Snakefile", "workflow/snakefile"),
        *("config.yaml", "config.yml", "config/config.yaml", "config/config.yml"),
    ),
    "nextflow": ("main.nf", "nextflow.config"),
    **dict.fromkeys(("npm", "yarn", "pnpm"), ("package.json",)),
    "cargo": ("Cargo.toml", "src/main.rs"),
    "bazel": ("BUILD", "BUILD.bazel", "MODULE.bazel", "WORKSPACE"),
    "go": ("go.mod", "main.go"),
    "dotnet": (),
    "scons": ("SConstruct",),
    "waf": ("wscript",),
    "dvc": ("dvc.yaml", "params.yaml"),
    "guild": ("guild.yml",),
    "mlflow": ("MLproject",),
    "wandb": (),
    "pixi": ("pixi.toml", "pyproject.toml"),
    "hatch": ("hatch.toml", "pyproject.toml"),
    "pipenv": ("Pipfile",),
    **dict.fromkeys(("uv", "poetry", "pdm", "rye", "poe"), ("pyproject.toml",)),
    **dict.fromkeys(("conda", "mamba", "micromamba"), ()),
}
# Options of these that name the folder, or a file whatever its name looks like.
FOLDERS_OF_WORK = ("-C", "--project", "--prefix", "--manifest-path", "--pyproject", *TO_FOLDER)
FILES_OF_WORK = frozenset({"f", "file", "s", "snakefile", "makefile", "taskfile", "justfile", "manifest-path"})
# A word after one of these options of launchers is no value of it.
SWITCH = re.compile(
    r"--[^=]+=.*|--no-.+|-[itvq]+|--(rm|frozen|locked|isolated|offline|quiet|verbose|live-stream|exclusive|overcommit|pty|user|scope"
    r"|standalone|collect|wait|preserve-env|all-extras|tty|oversubscribe)",
    re.DOTALL,
)
# These start trainings. By default `accelerate launch` does what its file in the home folder says.
_OF_TRAININGS = frozenset(
    {
        "torchrun",
        "accelerate",
        "deepspeed",
        "fabric",
        "composer",
        "colossalai",
        "horovodrun",
        "torch.distributed.run",
        "torch.distributed.launch",
        "accelerate.commands.launch",
        "deepspeed.launcher.runner",
        "horovod.runner",
        "colossalai.cli",
    }
)
_ACCELERATE = "~/.cache/huggingface/accelerate/default_config.yaml"
# Where the processes meet, which devices they take, and what they print.
_NOT_OF_THE_WORK = re.compile(
    r"(?:^|-)(?:port|addr|address|rank|hosts?|hostfile|endpoint|rdzv|ids?|name|logs?|tee|redirects|include|exclude|standalone|run"
    r"|verbose|quiet|debug|module|m)(?:-|$)"
)


def said(launcher: str, words: Sequence[str]) -> tuple[str, ...]:
    """What the options among these words of a launcher say of the training, as options `--name=value`."""
    if launcher not in _OF_TRAININGS:
        return ()
    options = [(name.replace("_", "-").lower(), value) for name, value in pairs(words) if name]
    if launcher.startswith("accelerate") and all(name != "config-file" for name, _ in options):
        options.append(("config-file", _ACCELERATE))
    found = (option for option in options if not _NOT_OF_THE_WORK.search(option[0]))
    # As a switch it would take the first word of the script for its value.
    return tuple(f"--{name}={'true' if value is None else value}" for name, value in found)
