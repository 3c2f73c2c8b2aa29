"""The variables by which the processes of a job over several hosts find each other.

gpuq starts one process on each host, which has all the devices of the job there. So for that process the world is as large as
there are hosts. `torchrun` starts one process for each device, gives each its own `RANK` and `WORLD_SIZE`, and takes its options
from the variables `PET_…` where they are not on its command line (torch.distributed.argparse_util). JAX reads its coordinator's
address; it reads the two numbers from no variable, so a script passes them (jax.distributed.initialize).
"""

from __future__ import annotations

from gpuq.core.state.attempt import Attempt, Gang


def rendezvous_environment(gang: Gang, attempt: Attempt) -> dict[str, str]:
    """The variables for this attempt of the gang."""
    rank, hosts = str(attempt.id.number - gang.first), str(len(gang.hosts))
    devices, port = str(len(attempt.devices)), str(gang.port)
    literal = f"[{gang.address}]" if ":" in gang.address else gang.address
    return {
        "MASTER_ADDR": gang.address,
        "MASTER_PORT": port,
        "NNODES": hosts,
        "NODE_RANK": rank,
        "NPROC_PER_NODE": devices,
        "WORLD_SIZE": hosts,
        "RANK": rank,
        "GROUP_RANK": rank,
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "PET_MASTER_ADDR": gang.address,
        "PET_MASTER_PORT": port,
        "PET_NNODES": hosts,
        "PET_NODE_RANK": rank,
        "PET_NPROC_PER_NODE": devices,
        "JAX_COORDINATOR_ADDRESS": f"{literal}:{port}",
        "JAX_NUM_PROCESSES": hosts,
        "JAX_PROCESS_ID": rank,
    }
