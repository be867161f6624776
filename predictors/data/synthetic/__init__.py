"""Synthetic job logs."""
