"""Predictors that learn one job at a time."""
