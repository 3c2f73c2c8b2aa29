"""A classifier chosen by name, as in PyTorch's widely copied example."""
import argparse
import torch
import torchvision.models as models
import torchvision.transforms as transforms

parser = argparse.ArgumentParser()
parser.add_argument("-a", "--arch", metavar="ARCH", default="resnet18")
parser.add_argument("--epochs", default=90, type=int)
parser.add_argument("-b", "--batch-size", default=256, type=int)
parser.add_argument("--pretrained", action="store_true")
parser.add_argument("--amp", action="store_true")


def main():
    args = parser.parse_args()
    if args.pretrained:
        model = models.__dict__[args.arch](pretrained=True)
    else:
        model = models.__dict__[args.arch]()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    crop = transforms.Compose([transforms.RandomResizedCrop(224), transforms.ToTensor()])
    loader = torch.utils.data.DataLoader(dataset(crop), batch_size=args.batch_size, shuffle=True)
    for images, target in loader:
        with torch.autocast("cuda", enabled=args.amp):
            loss = model(images)
        loss.backward()
        optimizer.step()


main()
