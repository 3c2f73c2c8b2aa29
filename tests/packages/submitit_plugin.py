"""A plugin of pytest for submitit's own tests: gpuq's executor stands where they name their local one."""

from submitit.local import local

from gpuq.submitit_executor import GpuqExecutor, GpuqJob


class LocalExecutor(GpuqExecutor):
    """Found under the name `local` too."""


local.LocalExecutor = LocalExecutor
local.LocalJob = GpuqJob
