"""dry_run_script.py MODEL BATCH: a training of a torchvision network as PyTorch's example has it. Run by `benchmarks.dry_run`.

The peaks were measured in 2022, so it does what PyTorch did then: gradients are filled with zeros, and the optimizer handles one
parameter after the other.
"""

import sys


def train(name: str, batch: int) -> None:
    """Ten steps on images that are drawn at random."""
    import torch
    import torchvision

    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = getattr(torchvision.models, name)().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4, foreach=False)
    for _ in range(10):
        images, labels = torch.randn(batch, 3, 224, 224), torch.randint(1000, (batch,))
        loss = torch.nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    train(sys.argv[1], int(sys.argv[2]))
