"""Commands for the service and its models."""
