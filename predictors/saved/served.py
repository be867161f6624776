"""The loader of run-time models that were stored when it lay here."""

from predictors.tracking.pyfunc import _load_pyfunc

__all__ = ["_load_pyfunc"]
