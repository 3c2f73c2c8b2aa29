"""A Lightning module around a library's model."""
import lightning as L
import torch
from torchvision.models import efficientnet_b0


class Classifier(L.LightningModule):
    def __init__(self, lr=1e-3):
        super().__init__()
        self.model = efficientnet_b0(weights=None)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.lr)


class Data(L.LightningDataModule):
    def __init__(self, batch_size: int = 48):
        self.batch_size = batch_size

    def train_dataloader(self):
        return torch.utils.data.DataLoader(self.train, batch_size=self.batch_size)


trainer = L.Trainer(max_epochs=10, precision="16-mixed")
trainer.fit(Classifier(), Data())
