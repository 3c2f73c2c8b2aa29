"""What runs on a GPU host. Workers never decide: they start what was ordered, watch it, and report.

serve.py     the worker service: supervises the RQ worker, samples, reports
run_job.py   the RQ task: checks the order, claims the start, starts the shim, returns
shim.py      parent of the training process; outlives everything here
sample.py    readings of devices and residents
hook/        what is put on the job's PYTHONPATH to count its steps
"""
