"""Q-learning with a replay buffer, NumPy; the arguments are CleanRL's."""
import argparse

import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--exp-name", type=str, default="dqn")
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--total-timesteps", type=int, default=3000)
parser.add_argument("--learning-rate", type=float, default=2.5e-4)
parser.add_argument("--buffer-size", type=int, default=20000)
parser.add_argument("--gamma", type=float, default=0.99)
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--frame", type=int, default=28, help="side of an observation")
parser.add_argument("--train-frequency", type=int, default=4)
args = parser.parse_args()
rng = np.random.default_rng(args.seed)
n = args.frame * args.frame
buffer = np.ones((args.buffer_size, n), np.float32)
w1 = rng.standard_normal((n, 256), dtype=np.float32) * np.float32(0.05)
w2 = rng.standard_normal((256, 4), dtype=np.float32) * np.float32(0.05)
for step in range(args.total_timesteps):
    buffer[step % args.buffer_size] = rng.random(n, dtype=np.float32)
    if step % args.train_frequency == 0:
        x = buffer[rng.integers(0, args.buffer_size, args.batch_size)]
        h = np.maximum(x @ w1, 0)
        q = h @ w2
        target = args.gamma * q.max(1, keepdims=True) + rng.random((len(x), 1), dtype=np.float32)
        e = (q - target) / len(x)
        d = (e @ w2.T) * (h > 0)
        w2 -= np.float32(args.learning_rate) * (h.T @ e)
        w1 -= np.float32(args.learning_rate) * (x.T @ d)
