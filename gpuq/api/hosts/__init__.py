"""The listener for other hosts: a process of its own, `python -m gpuq.api.hosts`, and the only one that the network reaches.

A host that joined has a certificate and nothing else: no address or password of the database or of Redis. What it may do is the
table of `calls.py`, each call for itself only.

joining.py   who may join, and the certificates of hosts     calls.py     the calls of hosts that joined
package.py   the package, for hosts that join                listener.py  TLS, who is calling, the application
"""
