"""The laboratory: measurement campaigns, evaluation on public data, rivals and bounds. The product never imports it."""
