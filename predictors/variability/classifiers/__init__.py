"""Classifiers of variability."""
