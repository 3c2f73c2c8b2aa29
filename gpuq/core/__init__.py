"""The pure core of gpuq: the state with `apply`, and scheduling with `decide`.

Nothing here uses a clock, a socket, a database, a log, numpy or a model; the time is always passed in. The daemon and the
simulator are two shells around these functions. Start with `state/state.py`, then `scheduling/decide.py`.
"""
