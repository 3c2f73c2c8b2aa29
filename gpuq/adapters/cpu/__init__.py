"""CPU cores as devices."""
