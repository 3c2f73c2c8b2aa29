"""The other shell: the same core in virtual time, in a world that it cannot see."""
