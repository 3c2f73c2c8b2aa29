"""What runs on a GPU host. Workers never decide: they start what was ordered, watch it, and report.

serve.py         the worker service: watches, samples, reports, keeps the RQ worker alive
serve_orders.py  the RQ worker: one function, one shape of message
run_job.py       the RQ task: checks the order, claims the start, hands it to a shim, returns
shims.py         a shim started ahead of time, so that a start takes milliseconds
shim.py          parent of the training process; outlives everything here (shim_*.py are its parts)
attempts.py      an attempt's folder, typed
residents.py     folders become `Started` and `Exited`; ends what a killed shim left
spool.py         those events on disk until they are committed
deliver.py       and on their way
watch.py         the sampler in a thread of its own
sample.py        readings of devices and residents
hook/            what is put on the job's PYTHONPATH to count its steps
"""
