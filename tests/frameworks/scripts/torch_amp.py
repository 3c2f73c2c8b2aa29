"""Mixed precision with a gradient scaler, which leaves out the steps whose gradients overflow."""

import json

import torch

torch.manual_seed(2)
model = torch.nn.Linear(16, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8)
losses, skipped = [], 0
for number in range(130):
    x = torch.randn(32, 16)
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = torch.nn.functional.mse_loss(model(x).float(), x.sum(1, keepdim=True))
    scaler.scale(loss).backward()
    if number % 13 == 5:
        model.weight.grad[0, 0] = float("inf")
    scaler.step(optimizer)
    before = scaler.get_scale()
    scaler.update()
    skipped += scaler.get_scale() < before
    losses.append(loss.item())
assert skipped == 10, skipped
print(json.dumps({"steps": 130 - skipped, "losses": losses}))
