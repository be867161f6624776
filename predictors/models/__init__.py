"""Run-time predictors."""
