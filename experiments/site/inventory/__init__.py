"""What the folder of a site under Slurm holds: understood, beyond the simulator, and missing."""
