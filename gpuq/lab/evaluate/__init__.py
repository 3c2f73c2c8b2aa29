"""Are gpuq's forecasts any good on data we never saw? Refits without what is held out, and judges ours and the baselines.

`figures` (what is counted), `answers` (what a method is), `baselines` (what to beat), `ours` (gpuq's own learning as such
a method), `holdout` (what is held out), `judge` (runs them), `report` (table and JSON). `python -m gpuq.lab.evaluate`
is what `gpuq model evaluate` starts.
"""
