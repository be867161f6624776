"""Comparison of ways of scheduling: which is better, and who pays."""
