"""A job that needs a fixed amount of work: `python work.py STEPS BUSY WAIT_MS`.

A step is BUSY rounds of hashing and a wait; it takes longer beside a partner that wants the same core at the same time.
"""

import hashlib
import sys
import time

import gpuq

steps, busy, wait_s = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]) / 1000
block = bytes(4096)
for _ in range(steps):
    for _ in range(busy):
        hashlib.blake2b(block).digest()
    time.sleep(wait_s)
    gpuq.step()
