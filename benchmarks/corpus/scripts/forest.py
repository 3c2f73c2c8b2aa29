"""Extremely random trees with a warm start, settings in TOML."""
import sys
import tomllib

import numpy as np
from sklearn.ensemble import ExtraTreesRegressor

with open(sys.argv[sys.argv.index("--config") + 1], "rb") as f:
    c = tomllib.load(f)
rng = np.random.default_rng(c["seed"])
x = rng.random((c["data"]["rows"], c["data"]["features"]), dtype=np.float32)
y = x @ rng.random(c["data"]["features"], dtype=np.float32)
m = ExtraTreesRegressor(warm_start=True, n_estimators=0, max_depth=c["trees"]["max_depth"], n_jobs=1, random_state=c["seed"])
for _ in range(c["trees"]["rounds"]):
    m.n_estimators += c["trees"]["per_round"]
    m.fit(x, y)
