"""A variational autoencoder, PyTorch, after pytorch/examples."""
import argparse

import torch
from torch import nn
from torch.nn import functional as F

parser = argparse.ArgumentParser(description="VAE Example")
parser.add_argument("--batch-size", type=int, default=128)
parser.add_argument("--epochs", type=int, default=1)
parser.add_argument("--hidden", type=int, default=400)
parser.add_argument("--latent", type=int, default=20)
parser.add_argument("--no-accel", action="store_true")
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--log-interval", type=int, default=10)
args = parser.parse_args()
torch.manual_seed(args.seed)


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(784, args.hidden)
        self.fcm = nn.Linear(args.hidden, args.hidden)
        self.fc21 = nn.Linear(args.hidden, args.latent)
        self.fc22 = nn.Linear(args.hidden, args.latent)
        self.fc3 = nn.Linear(args.latent, args.hidden)
        self.fc4 = nn.Linear(args.hidden, 784)

    def forward(self, x):
        h = F.relu(self.fcm(F.relu(self.fc1(x))))
        mu, logvar = self.fc21(h), self.fc22(h)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z)))), mu, logvar


model = VAE()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
data = torch.rand(6000, 784)
for epoch in range(args.epochs):
    for i, batch in enumerate(data.split(args.batch_size)):
        optimizer.zero_grad()
        recon, mu, logvar = model(batch)
        loss = F.mse_loss(recon, batch) - 0.001 * torch.mean(1 + logvar - mu.pow(2) - logvar.exp())
        loss.backward()
        optimizer.step()
        if i % args.log_interval == 0:
            print(epoch, i, loss.item())
