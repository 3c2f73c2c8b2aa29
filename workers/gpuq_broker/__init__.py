"""The broker: has PID 1 start attempts as the users who submitted them. The only code of gpuq that runs as root.

It has no capabilities and no network, reads no file that a job or the worker service can write, and starts nothing itself: it
checks a credential of the dispatcher and asks PID 1 for a transient unit.

__main__.py   its process: the socket that systemd passes, one request per connection
serve.py      who may connect, and what is done for a request
checks.py     what a credential and an order must be
unit.py       the properties of the unit
pid1.py       D-Bus to PID 1
"""
