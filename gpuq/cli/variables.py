"""Which variables of the environment a job gets.

Only those on a list are passed, and none whose name looks like a secret, unless the user names it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from gpuq.cli.capture import MAX_TEXT, Command, is_text
from gpuq.errors import BadInput

# docs/quickstart.md lists both.
# fmt: off
PASSED_NAMES = frozenset({
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "VIRTUAL_ENV", "LD_LIBRARY_PATH",
    "PYTHONPATH", "PYTHONUNBUFFERED", "PYTHONHASHSEED", "PYTHONWARNINGS", "PYTHONFAULTHANDLER", "MPLBACKEND", "MPLCONFIGDIR",
})
PASSED_PREFIXES = (
    "LC_", "CONDA_", "XDG_", "CUDA_", "CUBLAS_", "CUDNN_", "NCCL_", "OMP_", "MKL_", "OPENBLAS_", "NUMEXPR_", "KERAS_", "TF_",
    "JAX_", "XLA_", "PYTORCH_", "TORCH_", "TORCHINDUCTOR_", "TRITON_", "HF_", "TRANSFORMERS_", "TOKENIZERS_", "HYDRA_",
    "WANDB_", "MLFLOW_",
)
# fmt: on
_SECRET = re.compile(r"TOKEN(?!IZER)|SECRET|PASSWORD|PASSWD|KEY|CREDENTIAL")
# These are of a session or a job and mean nothing in another one.
_OF_THE_JOB = re.compile(
    r"(CUDA_VISIBLE_DEVICES|NVIDIA_VISIBLE_DEVICES|PWD|OLDPWD|SHLVL|DISPLAY|TERM|COLUMNS|LINES|HOSTNAME|EDITOR|PAGER|PS1)$"
    r"|CUDA_(DEVICE_ORDER$|MPS_)|WANDB_SERVICE$|(LOCAL_|NODE_|GROUP_)?RANK$|WORLD_SIZE$|MASTER_|SLURM_|GPUQ_|PBS_|LSB_|SSH_"
)


def environment(
    environ: Mapping[str, str], pass_globs: Iterable[str], settings: Iterable[str], *, listed: bool = True
) -> dict[str, str]:
    """The variables that are passed: the `listed` ones, those that match `--pass-env`, and those set with `-e`."""
    globs = list(pass_globs)
    env = {
        name: value
        for name, value in environ.items()
        if ((listed and is_listed(name)) or any(fnmatchcase(name, glob) for glob in globs))
        and not name.startswith("GPUQ_")
        and is_text(name)
        and is_text(value)
        and len(value) <= MAX_TEXT
    }
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not name or not is_text(setting):
            raise BadInput(f"`-e {setting}` names no variable.", fix="Write -e NAME=VALUE, or -e NAME to pass yours.")
        if not equals and name not in environ:
            raise BadInput(f"`-e {name}`: {name} is not set here.", fix=f"Write -e {name}=VALUE.")
        env[name] = value if equals else environ[name]
    return env


def unmatched(environ: Mapping[str, str], pass_globs: Iterable[str]) -> list[str]:
    """The `--pass-env` patterns that match no variable."""
    return [glob for glob in pass_globs if not any(fnmatchcase(name, glob) for name in environ)]


def is_listed(name: str) -> bool:
    """Whether a variable is passed without an option."""
    listed = name in PASSED_NAMES or name.startswith(PASSED_PREFIXES)
    return listed and not _SECRET.search(name.upper()) and not _OF_THE_JOB.match(name)


def not_passed(command: Command, folder: Path, environ: Mapping[str, str], passed: Collection[str]) -> list[str]:
    """The variables of ours that the command's script reads and that are not among those `passed` to the job."""
    if command.script is None or command.script.suffix != ".py":
        return []
    from gpuq.script.hints import variables

    read = variables(command.script, folder)
    return sorted(name for name in read if name in environ and name not in passed and not _OF_THE_JOB.match(name))
