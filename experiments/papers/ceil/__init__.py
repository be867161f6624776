"""CEIL (Li et al.)."""
