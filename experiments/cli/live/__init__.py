"""Commands for a running cluster."""
