"""How well policies schedule, side by side in the same worlds: `make bench-policies`."""
