"""`python -m gpuq.policies` prints the catalogue of policies as JSON, with the name of the policy in the settings."""

from __future__ import annotations

import sys
from dataclasses import asdict

import msgspec

from gpuq.errors import GpuqError
from gpuq.policies.catalogue import catalogue
from gpuq.settings import load


def main() -> int:
    """Print the catalogue on standard output. Returns the exit code: that of the error where the settings are wrong."""
    try:
        scheduling = load().scheduling
    except GpuqError as error:
        sys.stderr.write(f"gpuq: {error.message}\n  {error.fix}\n")
        return error.exit_code
    entries = [asdict(entry) for entry in catalogue(scheduling)]
    sys.stdout.buffer.write(msgspec.json.encode({"chosen": scheduling.policy, "policies": entries}) + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
