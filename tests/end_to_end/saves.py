"""A training that can be stopped: it saves where it is when told, and goes on from there when it is started again.

saves.py STEPS FILE
"""

import os
import signal
import sys
import time
from pathlib import Path

steps, checkpoint = int(sys.argv[1]), Path(sys.argv[2])
told = []
signal.signal(signal.SIGUSR1, lambda *_: told.append(True))
step = int(checkpoint.read_text()) if checkpoint.exists() else 0
print(f"attempt {os.environ['GPUQ_ATTEMPT']} begins at step {step}", flush=True)
while step < steps:
    time.sleep(0.05)
    step += 1
    if told:
        checkpoint.write_text(str(step))
        print(f"saved at step {step}", flush=True)
        sys.exit(0)
print("trained", flush=True)
