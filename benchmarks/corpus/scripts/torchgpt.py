"""A causal transformer, PyTorch, with gradient checkpointing as a switch."""
import argparse

import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint

p = argparse.ArgumentParser()
p.add_argument("--n_layer", type=int, default=3)
p.add_argument("--n_head", type=int, default=4)
p.add_argument("--n_embd", type=int, default=128)
p.add_argument("--block_size", type=int, default=128)
p.add_argument("--batch_size", type=int, default=8)
p.add_argument("--max_iters", type=int, default=6)
p.add_argument("--gradient_checkpointing", action="store_true")
p.add_argument("--out_dir", default="out")
a = p.parse_args()


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(5000, a.n_embd)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(a.n_embd, a.n_head, 4 * a.n_embd, batch_first=True) for _ in range(a.n_layer)
        )
        self.head = nn.Linear(a.n_embd, 5000)

    def forward(self, ids):
        x = self.emb(ids)
        for b in self.blocks:
            x = checkpoint(b, x, use_reentrant=False) if a.gradient_checkpointing else b(x)
        return self.head(x)


model = GPT()
opt = torch.optim.AdamW(model.parameters(), 3e-4)
for it in range(a.max_iters):
    ids = torch.randint(0, 5000, (a.batch_size, a.block_size))
    loss = nn.functional.cross_entropy(model(ids).view(-1, 5000), ids.view(-1))
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    print(it, loss.item())
