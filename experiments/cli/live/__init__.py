"""Commands beside a cluster that runs."""
