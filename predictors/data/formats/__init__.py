"""Readers and writers of job logs. The content determines the format."""
