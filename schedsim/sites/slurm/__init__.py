"""A site under Slurm: the two loops, priorities, fair-share, limits and accounts, from its own files."""
