"""Redis: the connection, the stream of messages, the RQ queues, and a server of our own."""
