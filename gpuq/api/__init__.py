"""The HTTP endpoint: a stateless process of its own, of which any number may run.

It reads the database and the dispatcher's live view, writes submissions and requests to the database, and wakes the dispatcher.
Start with `routes.py`, the table of everything that is served. `app.py` puts the parts together, `server.py` listens.
`hosts/` is another process: the listener for hosts that joined.
"""
