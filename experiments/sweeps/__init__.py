"""Sweeps: logs × cases × seeds."""
