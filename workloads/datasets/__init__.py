"""The data sets of the workloads: each is read in the form its makers publish it in, or made up in the same shape."""
