"""Runs one OpenCL kernel on several devices at once: whether that is correct, which share each takes, and the run itself.

Optional (`pip install 'gpuq-daemon[split]'`). Nothing of the queue imports this package; docs/split.md is for its users.
"""
