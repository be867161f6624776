"""Schedules and their figures."""
