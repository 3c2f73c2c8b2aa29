"""Runs the demo; see the package's own words."""

import sys

from workloads.demo.story import main

if __name__ == "__main__":
    sys.exit(main())
