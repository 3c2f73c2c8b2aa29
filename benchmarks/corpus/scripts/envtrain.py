"""Everything by environment variables, as in a container."""
import os

import numpy as np

HIDDEN = int(os.environ.get("HIDDEN", 512))
DEPTH = int(os.getenv("DEPTH", "4"))
BATCH_SIZE = int(os.environ.get("BATCH_SIZE", 64))
STEPS = int(os.environ.get("STEPS", 60))
LEARNING_RATE = float(os.environ.get("LEARNING_RATE", "1e-3"))
LOG_LEVEL = os.environ.get("LOG_LEVEL", "info")

rng = np.random.default_rng(int(os.environ.get("SEED", 0)))
w = [rng.standard_normal((HIDDEN, HIDDEN), dtype=np.float32) / np.float32(HIDDEN**0.5) for _ in range(DEPTH)]
m = [np.zeros_like(a) for a in w]
v = [np.zeros_like(a) for a in w]
for step in range(STEPS):
    x = rng.standard_normal((BATCH_SIZE, HIDDEN), dtype=np.float32)
    kept = [x]
    for a in w:
        x = np.tanh(x @ a)
        kept.append(x)
    d = x / x.size
    for i in reversed(range(DEPTH)):
        d = d * (1 - kept[i + 1] ** 2)
        g = kept[i].T @ d
        d = d @ w[i].T
        m[i] += 0.1 * (g - m[i])
        v[i] += 0.01 * (g * g - v[i])
        w[i] -= LEARNING_RATE * m[i] / (np.sqrt(v[i]) + 1e-8)
    if LOG_LEVEL == "debug":
        print(step, float(abs(x).mean()))
