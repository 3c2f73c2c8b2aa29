"""What a worker measures: use of each job, steps per second, foreign load, slowdown by short pauses."""
