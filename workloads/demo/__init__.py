"""`python -m workloads.demo`: gpuq at work on this machine, in about a minute; with `--emulated-gpus` on eight emulated GPUs.

It starts a gpuq of its own in a temporary home and speaks to it as a person would, by the command and the HTTP endpoint.
`story.py` is what happens on CPU cores and `emulated.py` what happens on emulated GPUs, `gpuq.py` how gpuq is started and asked,
`screen.py` and `report.py` what is shown. Exit code 0 only if what it set out to show was really seen.
"""
