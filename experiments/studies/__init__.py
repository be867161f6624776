"""Studies of our own, in addition to those of the papers."""
