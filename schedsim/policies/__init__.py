"""Scheduling policies are values."""
