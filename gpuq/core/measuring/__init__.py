"""What a measurement of a running attempt says, and the slowdown derived from it."""
