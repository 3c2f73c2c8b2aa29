"""Where a world's truth comes from: measured singles and pairs, the memory they need, and the machines they run on."""
