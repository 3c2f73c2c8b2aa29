"""A command with sub-commands, arguments taken from the signature as python-fire does it."""
import inspect
import sys

import numpy as np


def fit(width=400, rank=16, n_iter=500, minibatch=128, name="run", tol=1e-4):
    """Low-rank adapters on a frozen matrix."""
    rng = np.random.default_rng(0)
    frozen = rng.standard_normal((width, width), dtype=np.float32)
    a = rng.standard_normal((width, rank), dtype=np.float32) * np.float32(0.01)
    b = np.zeros((rank, width), np.float32)
    for i in range(n_iter):
        x = rng.standard_normal((minibatch, width), dtype=np.float32)
        e = x @ frozen + (x @ a) @ b - x
        gb = (x @ a).T @ e / minibatch
        ga = x.T @ (e @ b.T) / minibatch
        a -= np.float32(1e-3) * ga
        b -= np.float32(1e-3) * gb
        if i % 100 == 0:
            print(name, i, float((e * e).mean()))


def main():
    commands = {"fit": fit}
    func = commands[sys.argv[1]]
    given = dict(word[2:].split("=", 1) for word in sys.argv[2:])
    kinds = {n: type(p.default) for n, p in inspect.signature(func).parameters.items()}
    func(**{n: kinds[n](v) for n, v in given.items()})


if __name__ == "__main__":
    main()
