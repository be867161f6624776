"""The prediction service: job events in, predictions out, in milliseconds, and nothing acknowledged is ever lost."""
