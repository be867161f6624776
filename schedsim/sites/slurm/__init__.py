"""A site under Slurm: priorities, fair-share, limits and accounts, from its own files."""
