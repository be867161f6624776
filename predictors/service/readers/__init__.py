"""Readers: further processes that answer questions on a copy of the state; all else goes to the owner."""

from typing import Final

MOST: Final = 64
"""Readers of a service at most."""
