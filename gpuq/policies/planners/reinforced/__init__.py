"""Planning by a trained network: the game that it plays with a batch, and the network as plain arrays."""
