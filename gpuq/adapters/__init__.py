"""The outside world, one thing per module. A third-party library is used in one of them, but for `cryptography`. Those for
devices, the store and Redis do not import each other; some use `process.py` or another small module of this list.

devices.py        what a device backend offers; its two implementations follow
nvml/             NVIDIA GPUs through nvidia-ml-py
cpu/              sets of CPU cores as devices
store/            the database, through SQLAlchemy
redis/            messages: the dispatcher's inbox, orders to hosts as RQ jobs, the live view; the embedded server
slurm.py          Slurm's commands
kubernetes.py     kubectl
main_host.py      the main host, as hosts that joined reach it; certificates.py makes their certificates
relay.py          bytes copied between a WebSocket and a socket; handover.py a connection that another process goes on with
synced.py         files that users sent with `--sync`
process.py        processes in /proc, and signals that cannot hit a reused pid
supervise.py      long-lived child processes, restarted when they crash
job_log.py        the output of an attempt; job_socket.py a socket in its folder
lock.py           lock files
tasks.py          how tasks of asyncio are ended
"""
