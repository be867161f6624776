"""Fitted predictors at rest: their folders, addresses and store. Only `predictors.tracking` talks to MLflow."""
