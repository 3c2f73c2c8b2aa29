"""What is known of a job before it runs: its kind, its arguments and the inputs of the models."""
