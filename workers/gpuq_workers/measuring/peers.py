"""Whether processes of a job may have peers that would wait for them: such a job must not be paused alone.

Ranks of one training (torchrun, mpirun, Horovod, a cluster of TensorFlow or JAX) wait for each other in every step and fail when
one is silent for long. So everything that looks like a peer counts, and so does a process that cannot be inspected.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from gpuq.adapters.process import descendants, started_with
from gpuq_workers.measuring.progress import counting_processes

# Variables with the number of ranks; "1" means no other.
_SIZES = frozenset(
    {"WORLD_SIZE", "LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "HOROVOD_SIZE", "SLURM_NTASKS"}
)
# A process with one of these and without a number of ranks may be one of several.
_ROLES = frozenset(
    {"RANK", "MASTER_ADDR", "TF_CONFIG", "JAX_COORDINATOR_ADDRESS", "NCCL_COMM_ID", "PMIX_RANK", "PMI_RANK"}
)
# Servers of files and web pages only answer requests, so they do not wait for the job.
_SERVERS = frozenset({80, 443})
_ESTABLISHED = "01"
_SOCKET = re.compile(r"socket:\[(\d+)\]")

Connection = tuple[str, str]


def why_not_alone(root_pid: int, progress_file: Path) -> str | None:
    """Why the process tree below `root_pid` must not be paused alone; None if it may be."""
    processes = descendants(root_pid)
    if len(counting_processes(progress_file).intersection(processes)) > 1:
        return "several of its processes count steps, so they may wait for each other"
    try:
        return _of_environments(processes) or _of_descriptors(processes)
    except PermissionError:
        return "its processes cannot be inspected"


def _of_environments(processes: Iterable[int]) -> str | None:
    for pid in processes:
        try:
            raw, _ = started_with(pid)
        except (FileNotFoundError, ProcessLookupError):
            continue
        entries = (entry.partition("=") for entry in raw.decode(errors="replace").split("\0"))
        environment = {name: value for name, _, value in entries}
        sizes = {name: environment[name] for name in _SIZES.intersection(environment)}
        several = [f"{name}={size}" for name, size in sizes.items() if size != "1"]
        roles = [] if sizes else sorted(_ROLES.intersection(environment))
        if several or roles:
            return f"it is one of several processes ({sorted([*several, *roles])[0]})"
    return None


def _of_descriptors(processes: Iterable[int]) -> str | None:
    open_files = [link for pid in processes for link in _links(pid)]
    if any(link.startswith("/dev/infiniband/") for link in open_files):
        return "it uses InfiniBand"
    inodes = {found[1] for link in open_files if (found := _SOCKET.fullmatch(link))}
    connections = dict(_connections(processes)) if inodes else {}
    here = set(connections.values())
    for inode in inodes & connections.keys():
        local, remote = connections[inode]
        if (remote, local) in here:
            return "it has a connection to a process of this host"
        port = int(remote.rpartition(":")[2], 16)
        if port not in _SERVERS:
            return f"it has a connection to port {port} of another host"
    return None


def _links(pid: int) -> Iterator[str]:
    """The targets of the process's descriptors, as `socket:[123]` or a path."""
    try:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            try:
                yield str(entry.readlink())
            except (FileNotFoundError, ProcessLookupError):  # closed meanwhile
                continue
    except (FileNotFoundError, ProcessLookupError):
        return


def _connections(processes: Iterable[int]) -> Iterator[tuple[str, Connection]]:
    """(inode, (local, remote)) of the established TCP connections in the network namespaces of these processes."""
    for table in ("tcp", "tcp6"):
        read: set[Path] = set()
        for pid in processes:
            try:
                network = Path(f"/proc/{pid}/ns/net").readlink()
                lines = [] if network in read else Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
            except OSError:  # it has ended; a process that may not be inspected raised before
                continue
            read.add(network)
            for fields in map(str.split, lines):
                if fields[3] == _ESTABLISHED:
                    yield fields[9], (_plain(fields[1]), _plain(fields[2]))


def _plain(address: str) -> str:
    """An IPv4 address inside IPv6 as plain IPv4, so that both ends of a connection compare equal."""
    return address.removeprefix("0000000000000000FFFF0000")
