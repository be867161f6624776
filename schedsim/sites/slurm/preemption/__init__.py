"""Preemption under Slurm: which jobs may stop which others, and which of them a waiting job stops."""
