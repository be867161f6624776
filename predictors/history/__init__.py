"""As-of features: what is known at a submission."""
