"""The dispatcher: one shell around the core, in real time.

main.py     wiring and the process's life
loop.py     the ring and nothing else
intake.py   messages and requests become events
record.py   what one turn changes becomes one commit
outcome.py  what really happened to an attempt, beside its forecast
perform.py  actions become orders, sent again until they are seen to work
restore.py  the state, rebuilt from the record
journal.py  what is worth a line, and a journal replayed
view.py     the live picture that the API serves
up.py       `gpuq up`: everything for one user
retrain.py  the nightly training, a process of its own
tasks.py    the only place where background tasks are made
"""
