"""List schedulers: sort the queue, place the first job that fits, optionally backfill and preempt."""
