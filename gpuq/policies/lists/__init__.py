"""List schedulers: sort the queue and start each job that fits, with optional backfill rules and preemption."""
