"""How good forecasts are: every figure on measured public data, against its baselines in the same run.

One module per table of figures; each has `run(data: Path) -> list[Row]`. `python -m benchmarks.learning` runs them.
"""
