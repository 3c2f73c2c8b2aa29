"""Overrides in Hydra's way: `model.width=512 optim.name=sgd`."""
import sys

import numpy as np

cfg = {
    "model": {"width": 256, "depth": 4, "act": "relu"},
    "optim": {"name": "adam", "lr": 0.001},
    "data": {"batch_size": 64, "n_train": 20000, "dim": 128},
    "trainer": {"max_epochs": 3, "log_every_n_steps": 50},
    "seed": 0,
}
for word in sys.argv[1:]:
    path, value = word.lstrip("+").split("=", 1)
    *above, last = path.split(".")
    node = cfg
    for key in above:
        node = node[key]
    node[last] = type(node[last])(value)
rng = np.random.default_rng(cfg["seed"])
m, d, o = cfg["model"], cfg["data"], cfg["optim"]
dims = [d["dim"], *[m["width"]] * m["depth"], 1]
ws = [rng.standard_normal((a, b), dtype=np.float32) * np.float32(a**-0.5) for a, b in zip(dims, dims[1:])]
states = [[np.zeros_like(w) for w in ws] for _ in range(2 if o["name"] == "adam" else 0)]
X = rng.standard_normal((d["n_train"], d["dim"]), dtype=np.float32)
Y = X[:, :1]
for epoch in range(cfg["trainer"]["max_epochs"]):
    for n, i in enumerate(range(0, len(X), d["batch_size"])):
        hs = [X[i : i + d["batch_size"]]]
        for w in ws:
            hs.append(np.maximum(hs[-1] @ w, 0) if m["act"] == "relu" else np.tanh(hs[-1] @ w))
        g = (hs[-1] - Y[i : i + d["batch_size"]]) / len(hs[0])
        for j in reversed(range(len(ws))):
            gw = hs[j].T @ g
            g = (g @ ws[j].T) * (hs[j] > 0)
            if states:
                states[0][j] += 0.1 * (gw - states[0][j])
                states[1][j] += 0.01 * (gw * gw - states[1][j])
                gw = states[0][j] / (np.sqrt(states[1][j]) + 1e-8)
            ws[j] -= np.float32(o["lr"]) * gw
