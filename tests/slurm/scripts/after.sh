#!/bin/bash
#SBATCH --job-name=train
#SBATCH --time=5
echo "trains on $(cat prepared.txt)"
