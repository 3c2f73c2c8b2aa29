"""Are gpuq's forecasts good on data that it never saw? Refits without what is held out, and judges gpuq and the baselines on
it.

figures.py  what is computed                       baselines.py  simple methods to compare with
answers.py  the interface of a method              ours.py       gpuq's own learning as such a method
clean.py    makes tables consistent                judge.py      runs the methods
holdout.py  what is held out                       report.py     table and JSON
tables.py   tables in the form that learning takes

`python -m gpuq.lab.evaluate` is what `gpuq model evaluate` becomes.
"""
