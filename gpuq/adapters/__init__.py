"""One outside thing per module. Adapters do not know each other; each outside library has one home here.

store/          SQLAlchemy: the record
redis_link.py   redis: clients, and what its errors mean to us; stream, redis_server and queue stand on it
stream.py       redis: the inbox, the waiting queue, the live view
redis_server.py the embedded Redis server as our supervised child
queue.py        rq: the bell to the hosts
nvml.py         nvidia-ml-py: GPUs
cpu.py          CPU core sets as devices
process.py      process trees in /proc, signals, supervised children
"""
