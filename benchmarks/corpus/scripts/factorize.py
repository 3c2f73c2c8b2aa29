"""Matrix factorisation of ratings in NumPy."""
import argparse

import numpy as np

p = argparse.ArgumentParser()
p.add_argument("--num-users", type=int, default=50_000)
p.add_argument("--num-items", type=int, default=20_000)
p.add_argument("--rank", type=int, default=32)
p.add_argument("--ratings", type=int, default=400_000)
p.add_argument("--batch", type=int, default=20_000)
p.add_argument("--n-epochs", type=int, default=3)
p.add_argument("--reg", type=float, default=0.02)
p.add_argument("--out", default="factors.npy")
o = p.parse_args()
g = np.random.default_rng(0)
u = g.standard_normal((o.num_users, o.rank), dtype=np.float32)
v = g.standard_normal((o.num_items, o.rank), dtype=np.float32)
who, what = g.integers(0, o.num_users, o.ratings), g.integers(0, o.num_items, o.ratings)
r = g.random(o.ratings, dtype=np.float32)
for epoch in range(o.n_epochs):
    for i in range(0, o.ratings, o.batch):
        s = slice(i, i + o.batch)
        a, b = u[who[s]], v[what[s]]
        e = (r[s] - (a * b).sum(1))[:, None]
        np.add.at(u, who[s], 0.01 * (e * b - o.reg * a))
        np.add.at(v, what[s], 0.01 * (e * a - o.reg * b))
    print(epoch, float((e * e).mean()))
