"""A small network of the script's own."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3, 1)
        self.conv2 = nn.Conv2d(32, 64, 3, 1)
        self.dropout = nn.Dropout(0.25)
        self.fc1 = nn.Linear(9216, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x):
        return F.log_softmax(self.fc2(F.relu(self.fc1(x))), dim=1)


BATCH_SIZE = 64
train_kwargs = {"batch_size": BATCH_SIZE}
model = Net().to("cuda")
optimizer = optim.Adadelta(model.parameters(), lr=1.0)
loader = torch.utils.data.DataLoader(data, **train_kwargs)
