#!/bin/bash
#SBATCH --job-name=checkpoint
#SBATCH --time=00:01:00
#SBATCH --signal=B:USR1@45
#SBATCH --requeue
save() {
    echo "saved at step $([ "$step" -gt 0 ] && echo n)"
    exit 0
}
trap save USR1
step=0
echo "restart ${SLURM_RESTART_COUNT:-0}"
while true; do
    step=$((step + 1))
    sleep 1
done
