"""A compiled model under a compiled optimizer, a scripted loss, and a second optimizer beside it (a GAN's shape)."""

import json

import torch

torch.manual_seed(5)


@torch.jit.script
def distance(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return ((a - b) ** 2).mean()


generator = torch.compile(torch.nn.Linear(8, 8), backend="aot_eager", fullgraph=True)
critic = torch.nn.Linear(8, 1)
first = torch.optim.Adam(generator.parameters(), lr=1e-3)
second = torch.optim.RMSprop(critic.parameters(), lr=1e-3)


@torch.compile(backend="aot_eager")
def step():
    first.step()


losses = []
for _ in range(60):
    x = torch.randn(16, 8)
    first.zero_grad()
    loss = distance(generator(x), x)
    loss.backward()
    step()
    second.zero_grad()
    critic(generator(x).detach()).mean().backward()
    second.step()
    losses.append(loss.item())
print(json.dumps({"steps": 120, "losses": losses}))
