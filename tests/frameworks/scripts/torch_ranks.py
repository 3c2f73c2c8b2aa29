"""Two ranks on one host, as `torchrun` starts them: each makes every step, which are counted once."""

import json
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(4)
model = DistributedDataParallel(torch.nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
losses = []
generator = torch.Generator().manual_seed(dist.get_rank())
for _ in range(140):
    x = torch.randn(16, 16, generator=generator)
    loss = torch.nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
dist.barrier()
if os.environ["RANK"] == "0":
    print(json.dumps({"steps": 140, "losses": losses}))
dist.destroy_process_group()
