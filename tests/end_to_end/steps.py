"""A training script that never heard of frameworks: some arithmetic, some waiting, one counted step at a time.

steps.py SECONDS [--lr X]
"""

import sys
import time

import gpuq

end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    busy_until = time.monotonic() + 0.008
    while time.monotonic() < busy_until:
        pass
    time.sleep(0.012)
    gpuq.step()
print("trained", flush=True)
