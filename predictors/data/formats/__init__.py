"""Readers and writers of job logs. The format is told by the content."""
