#!/bin/bash
#SBATCH --job-name=steps
#SBATCH --nodes=1
#SBATCH --ntasks=2
#SBATCH --time=5
echo "prepare"
srun --ntasks=1 echo "one task"
srun bash -c 'echo "rank $SLURM_PROCID of $SLURM_NTASKS"' | sort
srun --ntasks=1 bash -c 'exit 4' || echo "a step failed with $?"
echo "done"
