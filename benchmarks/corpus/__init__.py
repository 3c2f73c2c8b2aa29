"""Training scripts as different people write them, what they need at several settings, and how well that is predicted."""
