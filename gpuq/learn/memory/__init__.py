"""Peak utilisation, peak memory and duration of a job on a type of device, and bounds that hold as often as they say.

From the bottom up: `kernel` (the covariance of two jobs), `regression` (a fitted Gaussian process, ready to answer),
`evidence_tiers` (which evidence a forecast has), `predict` (serves many jobs at once), `conformal` (how wide bounds must be),
`extend` (a kind's own memory at another batch size), `footprint` (memory from the layers of a known network). `fit` trains,
and is the only module that uses scipy.

The Gaussian process here and that of `interference` share no code: this one has a Gaussian likelihood, so its posterior and
its leave-one-out residuals are closed forms; that one has a rounded corner in its likelihood, which needs a Laplace
approximation. What they have in common is a call of `numpy.linalg.solve`.
"""
