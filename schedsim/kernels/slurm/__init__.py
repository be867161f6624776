"""Slurm's two scheduling loops, with limits; see `passes`."""
