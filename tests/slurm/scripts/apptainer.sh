#!/bin/bash
#SBATCH --job-name=container
#SBATCH --time=5
apptainer exec --nv --bind "$SLURM_SUBMIT_DIR" pytorch.sif echo "inside"
