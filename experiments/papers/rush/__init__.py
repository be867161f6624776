"""RUSH (Nichols et al.)."""
