"""Tracking and registry in MLflow, and fitted models on disk."""
