"""Job traces that others published."""
