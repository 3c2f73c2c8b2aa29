#!/bin/bash
#SBATCH --job-name=ddp
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=1
#SBATCH --time=5

nodes=($(scontrol show hostnames "$SLURM_JOB_NODELIST"))
export MASTER_ADDR="${nodes[0]}"
export MASTER_PORT=29500
srun bash -c 'torchrun --nnodes=$SLURM_NNODES --nproc_per_node=1 --node_rank=$SLURM_NODEID \
    --master_addr=$MASTER_ADDR --master_port=$MASTER_PORT train.py'
