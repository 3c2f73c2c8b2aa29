#!/bin/bash
#SBATCH -J pair
#SBATCH --gpus-per-node=2
#SBATCH --ntasks-per-node=1
#SBATCH -t 5
echo "GPUs: $SLURM_GPUS_ON_NODE, tasks: $SLURM_NTASKS"
