"""`python -m gpuq.policies`: the catalogue as JSON, beside the name of the policy that the settings choose."""

from __future__ import annotations

import sys
from dataclasses import asdict

import msgspec

from gpuq.errors import GpuqError
from gpuq.policies.catalogue import catalogue
from gpuq.settings import load


def main() -> int:
    """Print it; the exit code."""
    try:
        scheduling = load().scheduling
    except GpuqError as error:
        sys.stderr.write(f"gpuq: {error.message}\n  {error.fix}\n")
        return error.exit_code
    offers = [asdict(offer) for offer in catalogue(scheduling)]
    sys.stdout.buffer.write(msgspec.json.encode({"chosen": scheduling.policy, "policies": offers}) + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
