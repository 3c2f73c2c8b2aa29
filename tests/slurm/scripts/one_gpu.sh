#!/bin/bash
#SBATCH --job-name=resnet
#SBATCH --partition=main
#SBATCH --gres=gpu:1
#SBATCH --cpus-per-task=2
#SBATCH --mem=200M
#SBATCH --time=00:10:00
#SBATCH --output=%x-%j.out
#SBATCH --mail-type=END,FAIL
#SBATCH --mail-user=ann@example.org

set -euo pipefail
echo "job $SLURM_JOB_NAME on $SLURM_NNODES host with $SLURM_GPUS_ON_NODE GPU"
cd "$SLURM_SUBMIT_DIR"
python3 - "$1" <<'PYTHON'
import sys
print("trains with", sys.argv[1])
PYTHON
