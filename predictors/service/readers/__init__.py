"""Readers: further processes that answer questions on a copy of the state; all else goes to the owner."""
