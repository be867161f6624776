"""Cobalt at ALCF (Allcock et al.)."""
