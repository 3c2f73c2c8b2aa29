"""What the core never sees: memory, failures, power, and whether its decisions were right."""
