#!/bin/bash
#SBATCH --job-name=conda
#SBATCH --time=5
source "$(conda info --base)/etc/profile.d/conda.sh"
conda activate train
echo "in $CONDA_DEFAULT_ENV"
