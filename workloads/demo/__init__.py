"""`python -m workloads.demo`: gpuq at work on this machine, from a first run to a better forecast, in about three minutes.

It starts a gpuq of its own in a temporary home with one device of two CPU cores, and speaks to it as a person would: by
the command and the HTTP endpoint. `story.py` is what happens, `gpuq.py` how it is asked for, `screen.py` and `report.py`
what is shown. Exit code 0 only if what it set out to show was really seen.
"""
