"""A job that keeps its own books: a start and an end line, synced to disk, and a lock that two attempts cannot both hold.

ledger_job.py LEDGER SECONDS [FILE]: it lasts so long, and until there is this file
"""

import fcntl
import os
import sys
import time


def main() -> None:
    ledger, seconds = sys.argv[1], float(sys.argv[2])
    job, attempt = os.environ["GPUQ_JOB_ID"], os.environ["GPUQ_ATTEMPT"]
    lock = os.open(f"{ledger}.{job}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        write(ledger, f"double {job} {attempt}")
        sys.exit(9)
    write(ledger, f"start {job} {attempt}")
    time.sleep(seconds)
    while sys.argv[3:] and not os.path.exists(sys.argv[3]):  # noqa: PTH110  pathlib takes long to import
        time.sleep(0.05)
    write(ledger, f"end {job} {attempt}")


def write(ledger: str, line: str) -> None:
    descriptor = os.open(ledger, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(descriptor, f"{line}\n".encode())
    os.fsync(descriptor)
    os.close(descriptor)


main()
