"""A site's rules, as in Cobalt at ALCF."""
