"""The Slurm adapter, on recorded answers of real releases."""
