"""Blocks of attention in NumPy; settings are globals that the command line overrides, as nanoGPT has it."""
import sys
from ast import literal_eval

import numpy as np

out_dir = "out"
eval_interval = 50
log_interval = 10
batch_size = 8
block_size = 128
n_layer = 4
n_head = 4
n_embd = 128
vocab_size = 2000
learning_rate = 1e-3
max_iters = 10
for arg in sys.argv[1:]:
    key, val = arg.lstrip("-").split("=", 1)
    assert key in globals(), key
    try:
        globals()[key] = literal_eval(val)
    except (SyntaxError, ValueError):
        globals()[key] = val

rng = np.random.default_rng(1337)


def make(*shape):
    return (rng.standard_normal(shape, dtype=np.float32)) * np.float32(0.02)


wte = make(vocab_size, n_embd)
wpe = make(block_size, n_embd)
blocks = [
    {"attn": make(n_embd, 3 * n_embd), "proj": make(n_embd, n_embd), "fc": make(n_embd, 4 * n_embd), "out": make(4 * n_embd, n_embd)}
    for _ in range(n_layer)
]
moments = [{k: (np.zeros_like(v), np.zeros_like(v)) for k, v in b.items()} for b in blocks]
data = rng.integers(0, vocab_size, 200_000)
for it in range(max_iters):
    at = rng.integers(0, len(data) - block_size, batch_size)
    ids = np.stack([data[i : i + block_size] for i in at])
    x = wte[ids] + wpe
    saved = []
    for b in blocks:
        q, k, v = np.split(x @ b["attn"], 3, axis=-1)
        heads = [t.reshape(batch_size, block_size, n_head, -1).transpose(0, 2, 1, 3) for t in (q, k, v)]
        att = heads[0] @ heads[1].transpose(0, 1, 3, 2) / np.float32(np.sqrt(n_embd / n_head))
        att = np.exp(att - att.max(-1, keepdims=True))
        att /= att.sum(-1, keepdims=True)
        y = (att @ heads[2]).transpose(0, 2, 1, 3).reshape(x.shape) @ b["proj"]
        h = np.maximum((x + y) @ b["fc"], 0)
        x = x + y + h @ b["out"]
        saved.append((x, att, h))
    g = x / x.size
    for b, m, (inp, att, h) in zip(reversed(blocks), reversed(moments), reversed(saved)):
        flat = inp.reshape(-1, n_embd)
        d = {"out": h.reshape(-1, 4 * n_embd).T @ g.reshape(-1, n_embd)}
        dh = (g @ b["out"].T) * (h > 0)
        d["fc"] = flat.T @ dh.reshape(-1, 4 * n_embd)
        d["proj"] = flat.T @ g.reshape(-1, n_embd)
        d["attn"] = flat.T @ np.concatenate([g, g, g], -1).reshape(-1, 3 * n_embd)
        for name, grad in d.items():
            one, two = m[name]
            one += 0.1 * (grad - one)
            two += 0.05 * (grad * grad - two)
            b[name] -= learning_rate * one / (np.sqrt(two) + 1e-8)
    if it % log_interval == 0:
        print(f"iter {it}: {float(np.abs(x).mean()):.4f}")
