"""The HTTP endpoint: a process of its own, any number of them, that holds nothing.

It reads the record and the dispatcher's live view, writes submissions and requests to the record, and rings. Start with
`routes.py`: one table of everything that is served. `app.py` puts the parts together, `server.py` listens.
"""
