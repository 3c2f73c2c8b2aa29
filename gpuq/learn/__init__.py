"""What gpuq learns from its record, and how it answers the core's questions from it.

Serving (`kind`, `history`, `peaks`, `interference`, `clusters`, `predictor`, `shelf`) needs numpy at most; `train`
alone uses scikit-learn, in a process of its own.
"""
