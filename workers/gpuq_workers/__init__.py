"""What runs on a GPU host. Workers never decide: they start what was ordered, watch it, and report.

serve.py                the worker service: samples, reports, keeps the RQ worker alive
serve_orders.py         the RQ worker: one function, one shape of message
run_job.py              the RQ task: checks the order, claims the start, hands it to a shim, returns
shim_pool.py            a shim started ahead of time, so that a start takes milliseconds
shim/                   parent of the training process, outlives everything here; the standard library only
attempts.py             an attempt's folder, typed
residents.py            folders become `Started` and `Exited`; ends what a killed shim left
exit_classification.py  what the host knows of an end beyond the shim's word
spool.py, deliver.py    those events on disk until they are committed, and on their way
measuring/              readings of devices and residents, steps, foreign load, pauses that measure a slowdown
hook/                   what is put on the job's PYTHONPATH to count its steps
backend.py, mps.py      which kind of devices there are; NVIDIA's MPS, started and ended
prune.py                deletes old attempts' folders
"""
