"""The outside world, one thing per module. Adapters do not import each other; each third-party library is used in one of them.

devices.py        what a device backend offers; its two implementations follow
nvml/             NVIDIA GPUs through nvidia-ml-py
cpu/              sets of CPU cores as devices
store/            the database, through SQLAlchemy
redis/link.py     Redis clients, and what their errors mean to gpuq
redis/stream.py   the dispatcher's inbox, the waiting list and the live view in Redis
redis/queue.py    orders to the hosts, as RQ jobs
redis/server.py   the embedded Redis server as a child process
process.py        processes in /proc, and signals that cannot hit a reused pid
supervise.py      long-lived child processes, restarted when they crash
lock.py           lock files
tasks.py          how tasks of asyncio are ended
"""
