"""Bounds of predicted run times, in a module that imports nothing, so that the client can share them."""

from typing import Final

UNKNOWN_REQUEST: Final = 3600.0
"""Predicted where neither anything learnt nor a requested time is at hand [s]."""
SHORTEST: Final = 1.0
"""Least capped prediction [s]."""
