"""What runs at night: fit, score, publish, and the model card."""
