"""Evaluation of predictors."""
