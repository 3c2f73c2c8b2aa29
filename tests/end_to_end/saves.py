"""A training that can be stopped: on SIGUSR1 it saves its step and exits, and its next attempt does the rest at once.

saves.py STEPS FILE
"""

import os
import signal
import sys
import time
from pathlib import Path

steps, checkpoint = int(sys.argv[1]), Path(sys.argv[2])
requested = []
signal.signal(signal.SIGUSR1, lambda *_: requested.append(True))
resumes = checkpoint.exists()
step = int(checkpoint.read_text()) if resumes else 0
print(f"attempt {os.environ['GPUQ_ATTEMPT']} begins at step {step}", flush=True)
while step < steps:
    time.sleep(0 if resumes else 0.05)
    step += 1
    if requested:
        checkpoint.write_text(str(step))
        print(f"saved at step {step}", flush=True)
        sys.exit(0)
print("trained", flush=True)
