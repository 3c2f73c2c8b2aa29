"""What runs on a GPU host. Workers never decide: they start what was ordered, watch it, and report.

serve.py         the worker service: watches, samples, reports, keeps the RQ worker alive
serve_orders.py  the RQ worker: one function, one shape of message
run_job.py       the RQ task: checks the order, claims the start, hands it to a shim, returns
shims.py         a shim started ahead of time, so that a start takes milliseconds
shim.py          parent of the training process; outlives everything here. Its parts, the standard library only:
                 shim_child starts, shim_tree finds and signals, shim_log keeps the output, shim_record writes files
                 once, shim_blink and shim_pause pause, shim_mps parts from MPS; of an end: shim_end names it by what
                 shim_text reads, shim_words knows and shim_oom saw
attempts.py      an attempt's folder, typed
residents.py     folders become `Started` and `Exited`; ends what a killed shim left
ends.py          what the host knows of an end beyond the shim's word
spool.py         those events on disk until they are committed
deliver.py       and on their way
watch.py         the sampler in a thread of its own
sample.py        readings of devices and residents
measure.py       what an attempt's readings add up to
prealloc.py      memory that a framework took in advance
progress.py      the step counter, read
hook/            what is put on the job's PYTHONPATH to count its steps
blink.py         whom to pause when, to measure a partner alone; peers.py: whom not to
backend.py       which kind of devices there are; mps.py: NVIDIA's MPS, started and ended
prune.py         old attempts' folders go
"""
