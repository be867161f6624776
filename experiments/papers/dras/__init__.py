"""DRAS (Fan et al.)."""
