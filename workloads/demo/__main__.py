"""Runs the demo on CPU cores, or with `--emulated-gpus` the one on emulated GPUs."""

import sys

from workloads.demo import emulated, story

if __name__ == "__main__":
    wanted = sys.argv[1:]
    if wanted not in ([], ["--emulated-gpus"]):
        sys.exit("usage: python -m workloads.demo [--emulated-gpus]")
    sys.exit(emulated.main() if wanted else story.main())
