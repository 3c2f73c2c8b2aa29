"""The pure middle of gpuq: nouns, `apply`, `ask`, `decide`.

Nothing below knows a clock, a socket, a database, a log, numpy or a model; `now` is always passed in.
The daemon and the simulator are two shells around these functions. Start with `state.py`.
"""
