"""Scheduling policies as values."""
