"""One large layer with a choice of optimisers, NumPy."""
import argparse

import numpy as np

ap = argparse.ArgumentParser()
ap.add_argument("--d-model", type=int, default=1024)
ap.add_argument("--optimizer", choices=["sgd", "momentum", "adam"], default="sgd")
ap.add_argument("--grad-accum", type=int, default=1)
ap.add_argument("--micro-batch-size", type=int, default=64)
ap.add_argument("--iterations", type=int, default=40)
ap.add_argument("--weight-decay", type=float, default=0.0)
ap.add_argument("--checkpoint-every", type=int, default=1000)
a = ap.parse_args()
r = np.random.default_rng(0)
ws = [r.standard_normal((a.d_model, a.d_model), dtype=np.float32) / 32 for _ in range(6)]
states = {"sgd": 0, "momentum": 1, "adam": 2}[a.optimizer]
state = [[np.zeros_like(w) for _ in range(states)] for w in ws]
for it in range(a.iterations):
    total = [np.zeros_like(w) for w in ws]
    for _ in range(a.grad_accum):
        h = [r.standard_normal((a.micro_batch_size, a.d_model), dtype=np.float32)]
        for w in ws:
            h.append(np.maximum(h[-1] @ w, 0))
        d = h[-1] / h[-1].size
        for i in reversed(range(len(ws))):
            total[i] += h[i].T @ d
            d = (d @ ws[i].T) * (h[i] > 0)
    for w, s, t in zip(ws, state, total):
        for one in s:
            one *= np.float32(0.9)
            one += t
        w -= np.float32(1e-3) * (t + np.float32(a.weight_decay) * w)
