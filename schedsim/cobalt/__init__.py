"""A site's rules, after Cobalt at ALCF."""
