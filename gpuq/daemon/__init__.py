"""The dispatcher: the core, run in real time against the database, Redis and the hosts.

main.py             starts and ends the process
loop.py             the cycle: events in, actions out
leadership.py       waits until this dispatcher may lead, and keeps its lease
clock.py            time that never steps, for intervals; wall time for records
inbox.py            messages and requests become events
learner.py          forecasts, and learning from attempts that ended
record.py           what one cycle changes becomes one commit
marks.py            what happened on devices between two reports, with its time
outcome.py          what was measured of an attempt that ended
unstarted.py        attempts that their host does not report: never started, lost, or awaited
perform.py          actions become orders, sent again until they have taken effect
restore.py          rebuilds the state from the database
journal.py          which events and actions are recorded, and how a journal is replayed
view.py             the live view that the API serves
start_estimates.py  when waiting jobs will probably start
shadow.py           shadow mode: what sharing would have done
tasks.py            the only place where background tasks are made
"""
