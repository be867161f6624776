"""Commands on packages that add predictors, policies and orders."""
