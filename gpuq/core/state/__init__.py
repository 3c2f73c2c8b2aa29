"""The state of the queue, the events that change it, and the nouns of both."""
