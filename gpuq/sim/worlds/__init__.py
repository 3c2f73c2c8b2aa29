"""The workloads, pair slowdowns and devices that worlds are made of."""
