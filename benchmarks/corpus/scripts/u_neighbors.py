"""An online index of vectors, NumPy, whose arguments are `key value` pairs."""
import sys

import numpy as np

given = dict(zip(sys.argv[1::2], sys.argv[2::2]))
capacity = int(given.get("capacity", 40000))
dims = int(given.get("dims", 128))
queries = int(given.get("queries", 200))
repeats = int(given.get("repeats", 20))
label = given.get("label", "a")
rng = np.random.default_rng(0)
index = rng.standard_normal((capacity, dims), dtype=np.float32)
norms = np.linalg.norm(index, axis=1)
for r in range(repeats):
    q = rng.standard_normal((queries, dims), dtype=np.float32)
    scores = q @ index.T / norms
    best = np.argpartition(scores, -10, axis=1)[:, -10:]
    index[best.ravel() % capacity] *= np.float32(0.999)
print(label, float(norms.mean()))
