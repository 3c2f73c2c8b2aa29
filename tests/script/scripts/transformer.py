"""A decoder whose size comes from options; blocks are made in a loop."""
import click
import torch
from torch import nn
from torch.nn import LayerNorm, Linear


class Block(nn.Module):
    def __init__(self, width, heads=4):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads)
        self.up = Linear(width, 4 * width)
        self.down = Linear(4 * width, width, bias=False)
        self.norm = LayerNorm(width)


class Decoder(nn.Module):
    def __init__(self, vocabulary, width, depth):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList([Block(width) for _ in range(depth)])
        self.head = Linear(width, vocabulary, bias=False)


@click.command()
@click.option("--width", default=64)
@click.option("--depth", default=2)
@click.option("--n", "n", default=8, help="sequences in a batch")
@click.option("--block-size", default=128)
def main(width, depth, n, block_size):
    options = click.get_current_context().params
    model = Decoder(1000, options["width"], options["depth"]).bfloat16()
    optimizer = torch.optim.AdamW(model.parameters())
    loader = torch.utils.data.DataLoader(data, batch_size=options["n"])


main()
