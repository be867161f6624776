"""Classifiers that tell whether a job will run slower than usual if it starts now."""
