"""Peak utilisation, peak memory and duration of a job on a type of device, and bounds that hold as often as they say.

`traits` (what is known of a job before it runs), `kernel` (how alike two jobs are), `regression` (what that says of a new kind),
`levels` (which evidence there is, in words), `foretell` (serves them, many jobs at once), `fit` (trains them; the only one that
uses SciPy), `conformal` (how wide bounds must be).
"""
