"""Everything of use stands in a configuration file."""
import sys
import timm
import torch
import yaml

config = yaml.safe_load(open(sys.argv[1]))
model = timm.create_model(config["model"]["name"], num_classes=10)
optimizer = getattr(torch.optim, config["optim"]["kind"])(model.parameters())
loader = torch.utils.data.DataLoader(data, config["data"]["batch_size"])
