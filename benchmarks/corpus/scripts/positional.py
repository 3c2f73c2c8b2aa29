"""usage: positional.py POINTS CLUSTERS ROUNDS [DIMENSIONS]"""
import sys

import numpy as np

points, clusters, rounds = (int(word) for word in sys.argv[1:4])
dimensions = int(sys.argv[4]) if len(sys.argv) > 4 else 32
rng = np.random.default_rng(0)
x = rng.random((points, dimensions), dtype=np.float32)
c = x[:clusters].copy()
for r in range(rounds):
    d = (x * x).sum(1)[:, None] - 2 * x @ c.T + (c * c).sum(1)
    nearest = d.argmin(1)
    for k in range(clusters):
        mine = x[nearest == k]
        if len(mine):
            c[k] = mine.mean(0)
    print(r, float(d.min(1).sum()))
