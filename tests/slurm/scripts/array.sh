#!/bin/bash
#SBATCH --job-name=sweep
#SBATCH --array=0-3%2
#SBATCH --time=5
rates=(0.1 0.01 0.001 0.0001)
echo "task $SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT: lr ${rates[$SLURM_ARRAY_TASK_ID]}"
