"""Bounds of predicted run times, in a module that imports nothing, so that the client can share them."""

from typing import Final

UNKNOWN_REQUEST: Final = 3600.0  # the prediction without a model and without a requested time [s]
SHORTEST: Final = 1.0  # least capped prediction [s]
