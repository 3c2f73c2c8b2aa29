"""Speed, measured: `python -m benchmarks` runs all of them, `python -m benchmarks NAME` one. docs/measurements says how."""
