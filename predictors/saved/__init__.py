"""Loaders that models in older MLflow stores name; what they lead to is in `predictors.tracking`."""
