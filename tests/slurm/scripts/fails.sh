#!/bin/bash
#SBATCH --job-name=fails
#SBATCH --time=5
#SBATCH --error=%j.err
set -e
echo "begins"
false || exit 3
echo "never"
