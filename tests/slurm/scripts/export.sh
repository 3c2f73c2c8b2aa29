#!/bin/bash
#SBATCH --job-name=variables
#SBATCH --export=ALL,LR=0.1
#SBATCH --comment="a sweep"
#SBATCH --time=5
echo "lr $LR, restarts ${SLURM_RESTART_COUNT:-0}"
