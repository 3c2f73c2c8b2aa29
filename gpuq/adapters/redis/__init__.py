"""Redis: the connection, the stream of messages, the RQ queues, and the embedded server."""
