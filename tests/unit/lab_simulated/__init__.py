"""The simulated Slurm, where it goes beyond the contract that the real one shares."""
