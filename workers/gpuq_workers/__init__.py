"""What runs on a GPU host. Workers make no scheduling decisions: they start what was ordered, measure it, and report.

serve.py                the worker service, one per host: reports every second, delivers events, keeps the RQ worker alive
host_lease.py           one worker service at a time has the host's name
serve_orders.py         the RQ worker as a process of its own: checks the shape of each message and calls run_job
poll_orders.py          the same on a host that joined: takes its orders from the main host, one by one
uplink.py               how this host reaches the dispatcher; join.py makes it a host of another one
serve_requests.py       answers what the API asks: logs, and connections to interactive jobs
run_job.py              the RQ task: verifies an order, claims the start, hands it to a shim or stops an attempt
launcher.py             how an attempt is started: as the services' user, or as its submitter through the broker
order_file.py           what a shim is to run: the environment of a job, `order.json`
units.py                the systemd units of attempts that run as their submitters
sync.py, results.py     the files of `gpuq submit --sync`, and what `gpuq fetch` brings back of them
trees.py                gives the files to jobs that run as their submitters; sync_in_unit.py gets them there
shim_pool.py            a shim started ahead of time, so that a job starts within milliseconds
shim/                   the parent of each job's process; outlives the services; standard library only
attempts.py             the files of an attempt's folder as types
ended.py                which attempts are over, so that a start need not open their folders; deletes old folders
shim_ends.py            notices at once that a shim has ended
residents.py            turns those files into the events `Started` and `Exited`; ends what a killed shim left
live_attempt.py         what is known of one attempt until its end is spooled, and which of its processes still run
failed_starts.py        for how long a host takes no jobs after it could not start one
exit_classification.py  reclassifies an end by the driver's errors and by who used up the memory
spool.py, deliver.py    events on disk until the dispatcher has committed them, and their delivery
measuring/              readings of devices and residents, step counters, foreign load, pauses that measure a slowdown
hook/                   modules on a job's PYTHONPATH that count its training steps
backend.py, mps.py      the host's device backend; starting and ending NVIDIA's MPS
"""
