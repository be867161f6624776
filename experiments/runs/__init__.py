"""Runs: one simulation by names, pools of workers, checkpoints."""
