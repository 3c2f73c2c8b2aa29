"""The network lives in a file beside this one."""
import torch
from parts import SmallNet, make_options

args = make_options().parse_args()
model = SmallNet(hidden=args.hidden)
optimizer = torch.optim.RMSprop(model.parameters())
