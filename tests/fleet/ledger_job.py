"""A job that keeps its own books, in a file of its host: python3 ledger_job.py SECONDS [EXIT CODE]

It prints its job and attempt. Each line of the file is `what JOB ATTEMPT HOST seconds pid`: a start, that it still runs (ten
times a second), and its end. The seconds are since the boot of the machine that all hosts of a lab share, so the lines of
several hosts have one clock. A run without an end was killed after its last line. At SIGTERM it ends with its exit code, as
a job that has saved its work does.
"""

import os
import signal
import socket
import sys
import time

LEDGER = "/srv/ledger"


def main() -> None:
    seconds, code = float(sys.argv[1]), int((sys.argv[2:] or ["0"])[0])
    until = now() + seconds
    write("start")
    print(os.environ["GPUQ_JOB_ID"], os.environ["GPUQ_ATTEMPT"], flush=True)
    signal.signal(signal.SIGTERM, lambda *_: (write("end"), sys.exit(code)))
    while (left := until - now()) > 0:
        time.sleep(min(left, 0.1))
        write("alive")
    write("end")
    sys.exit(code)


def now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def write(what: str) -> None:
    job, attempt = os.environ["GPUQ_JOB_ID"], os.environ["GPUQ_ATTEMPT"]
    line = f"{what} {job} {attempt} {socket.gethostname()} {now():.3f} {os.getpid()}\n"
    descriptor = os.open(LEDGER, os.O_WRONLY | os.O_APPEND)
    os.write(descriptor, line.encode())
    os.close(descriptor)


main()
