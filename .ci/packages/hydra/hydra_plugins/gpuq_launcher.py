"""`hydra/launcher=gpuq`: each job of a sweep is a job of gpuq, by submitit's executor in `gpuq.submitit_executor`.

Hydra runs this module without an entry in `sys.modules`, so its annotations are objects, not texts.
"""

from dataclasses import dataclass
from typing import Optional

from hydra.core.config_store import ConfigStore
from hydra_plugins.hydra_submitit_launcher.config import BaseQueueConf
from hydra_plugins.hydra_submitit_launcher.submitit_launcher import BaseSubmititLauncher


@dataclass
class GpuqQueueConf(BaseQueueConf):
    """What a sweep may set below `hydra.launcher`: submitit's parameters, and options of `gpuq submit`; None: as usual there.

    OmegaConf reads the types, and knows no `str | None` in its releases for older Pythons.
    """

    _target_: str = "hydra_plugins.gpuq_launcher.GpuqLauncher"
    max_num_timeout: int = 0
    signal_delay_s: int = 120
    project: Optional[str] = None  # noqa: UP045
    priority: Optional[int] = None  # noqa: UP045
    share: Optional[str] = None  # noqa: UP045
    max_slowdown: Optional[str] = None  # noqa: UP045
    gpu_mem: Optional[str] = None  # noqa: UP045
    preemptible: Optional[bool] = None  # noqa: UP045
    requeue: Optional[bool] = None  # noqa: UP045


class GpuqLauncher(BaseSubmititLauncher):
    """Submits by the executor of this name."""

    _EXECUTOR = "gpuq"


ConfigStore.instance().store(group="hydra/launcher", name="gpuq", node=GpuqQueueConf(), provider="gpuq")
