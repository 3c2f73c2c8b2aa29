"""Four batches to a step, read by two worker processes; the optimizer goes through a checkpoint on the way."""

import copy
import io
import json
import pickle

import torch


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 1920

    def __getitem__(self, index):
        x = torch.full((8,), index / 1920)
        return x, x.sum()


def main():
    torch.manual_seed(3)
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    optimizer.register_step_post_hook(ignore)
    losses, steps = [], 0
    for epoch in range(2):
        context = ("fork", "spawn")[epoch]
        loader = torch.utils.data.DataLoader(Numbers(), batch_size=8, num_workers=2, multiprocessing_context=context)
        for number, (x, y) in enumerate(loader):
            loss = torch.nn.functional.mse_loss(model(x)[:, 0], y) / 4
            loss.backward()
            if number % 4 == 3:
                optimizer.step()
                optimizer.zero_grad()
                steps += 1
            losses.append(loss.item())
        file = io.BytesIO()
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
        file.seek(0)
        saved = torch.load(file)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        assert type(copy.deepcopy(optimizer)) is type(pickle.loads(pickle.dumps(optimizer))) is torch.optim.Adam
    print(json.dumps({"steps": steps, "losses": losses}))


def ignore(*_):
    pass


if __name__ == "__main__":
    main()
