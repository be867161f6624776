"""Comparison of ways of scheduling: which is better, and at whose cost."""
