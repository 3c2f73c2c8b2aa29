#!/bin/bash
#SBATCH --job-name=prepare
#SBATCH --time=5
sleep 2
echo "data" > prepared.txt
echo "prepared"
