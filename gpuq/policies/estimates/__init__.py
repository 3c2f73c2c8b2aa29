"""When a waiting job will start: durations, the queue ahead, and how well earlier estimates held."""
