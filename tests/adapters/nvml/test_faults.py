"""Errors that the driver reports, and which GPU is unwell after them, over the stand-in driver."""

from __future__ import annotations

from collections.abc import Callable

from tests.adapters.stand_in import (
    Ran,
)


def test_a_program_error_is_counted_and_the_gpu_stays_well(run: Callable[..., Ran]):
    ran = run(
        "state('event 1 1 31 -1', 'event 2 1 13 -1', 'event 3 1 31 -1')\n"
        "reported = [[f.device, f.xid] for f in backend.faults()], list(backend.faults())\n"
        "r = backend.read(NOW, []).readings\n"
        "result = reported, r['GPU-1'].unwell, r['GPU-1'].vitals.xids, r['GPU-0'].vitals.xids"
    )
    reported, unwell, mine, others = ran.result
    assert reported == [[["GPU-1", 31], ["GPU-1", 13], ["GPU-1", 31]], []], "each once"
    assert (unwell, mine, others) == (None, [[13, 1], [31, 2]], [])


def test_a_fatal_error_makes_a_gpu_unwell_until_the_driver_wants_no_recovery(run: Callable[..., Ran]):
    """Also when the wall clock is set back by an hour in that minute."""
    ran = run(
        "import time as clock\n"
        "began = clock.monotonic(); clock.monotonic = lambda: began + later\n"
        "wall = clock.time(); clock.time = lambda: wall + later - (3600 if later else 0)\n"
        "later = 0; said = lambda: backend.read(NOW, []).readings['GPU-0'].unwell\n"
        "state('event 1 0 48 -1', 'device 0 recovery 0'); backend.faults(); at_once = said()\n"
        "later = 61; state('device 0 recovery 1'); still = said()\n"
        "state(); old_driver = said()\n"
        "state('device 0 recovery 0'); result = at_once, still, old_driver, said()"
    )
    at_once, still, old_driver, well = ran.result
    assert at_once == still == old_driver == "XID 48: an ECC error in memory that cannot be corrected"
    assert well is None


def test_a_gpu_that_wants_a_reset_at_start_is_unwell(run: Callable[..., Ran]):
    start = "device 0 recovery 1\ndevice 1 recovery 0"
    ran = run("result = [r.unwell for r in backend.read(NOW, []).readings.values()]", start=start)
    assert ran.result == ["its driver wants a reset", None]


def test_an_error_without_a_slice_is_reported_for_every_slice(run: Callable[..., Ran]):
    ran = run(
        "state('device 0 mig 2', 'event 1 0 13 2', 'event 2 0 79 -1')\n"
        "result = [[f.device, f.xid] for f in backend.faults()]",
        start="device 0 mig 2",
    )
    assert ran.result == [["MIG-101", 13], ["MIG-100", 79], ["MIG-101", 79]]
