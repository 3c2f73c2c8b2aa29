"""How true a simulation is: real jobs on a real gpuq, and their replay in the simulator, side by side: `make bench-replay`."""
