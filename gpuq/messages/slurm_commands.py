"""What marks the programs that `gpuq slurm-commands` writes."""

MARK = "# Written by `gpuq slurm-commands`."
"""In the head of each. They are called as Slurm's are, and what they submit goes to gpuq."""
