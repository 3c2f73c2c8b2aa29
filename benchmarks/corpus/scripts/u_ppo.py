"""Policy gradients on a made-up environment, NumPy; options in CleanRL's manner, boolean flags by hand."""
import argparse

import numpy as np

p = argparse.ArgumentParser()
p.add_argument("--num-envs", type=int, default=16)
p.add_argument("--num-steps", type=int, default=256, help="steps of a rollout")
p.add_argument("--num-updates", type=int, default=20)
p.add_argument("--obs-dim", type=int, default=200)
p.add_argument("--hidden-units", type=int, default=256)
p.add_argument("--minibatches", type=int, default=4)
p.add_argument("--ent-coef", type=float, default=0.01)
p.add_argument("--gae-lambda", type=float, default=0.95)
p.add_argument("--track", action="store_true")
a = p.parse_args()
rng = np.random.default_rng(0)
w1 = rng.standard_normal((a.obs_dim, a.hidden_units), dtype=np.float32) * np.float32(0.05)
w2 = rng.standard_normal((a.hidden_units, 8), dtype=np.float32) * np.float32(0.05)
for update in range(a.num_updates):
    obs = np.empty((a.num_steps, a.num_envs, a.obs_dim), np.float32)
    rewards = np.empty((a.num_steps, a.num_envs), np.float32)
    state = rng.standard_normal((a.num_envs, a.obs_dim), dtype=np.float32)
    for t in range(a.num_steps):
        obs[t] = state
        logits = np.maximum(state @ w1, 0) @ w2
        rewards[t] = logits.max(1)
        state = 0.9 * state + 0.1 * rng.standard_normal(state.shape, dtype=np.float32)
    flat = obs.reshape(-1, a.obs_dim)
    for rows in np.array_split(rng.permutation(len(flat)), a.minibatches):
        h = np.maximum(flat[rows] @ w1, 0)
        g = (h @ w2) / len(rows) * np.float32(a.gae_lambda)
        d = (g @ w2.T) * (h > 0)
        w2 -= np.float32(1e-3) * (h.T @ g)
        w1 -= np.float32(1e-3) * (flat[rows].T @ d)
